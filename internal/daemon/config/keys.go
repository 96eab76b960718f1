package config

import (
	"reflect"
	"slices"
)

// Keys are all keys of the file, each once, without the tables that they are in.
func Keys() []string {
	var keys []string
	var walk func(t reflect.Type)
	walk = func(t reflect.Type) {
		for i := range t.NumField() {
			f := t.Field(i)
			key := f.Tag.Get("toml")
			if key == "" && !f.Anonymous {
				continue // not of the file
			}
			if key != "" {
				keys = append(keys, key)
			}
			inner := f.Type
			for inner.Kind() == reflect.Map || inner.Kind() == reflect.Slice {
				inner = inner.Elem()
			}
			if inner.Kind() == reflect.Struct {
				walk(inner)
			}
		}
	}
	walk(reflect.TypeFor[Config]())
	slices.Sort(keys)
	return slices.Compact(keys)
}
