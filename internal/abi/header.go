package abi

import (
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"

	"github.com/roce-xdp/roce-xdp/internal/proto"
	"github.com/roce-xdp/roce-xdp/internal/queue"
)

// Dir is where the headers are, from the top of the sources. A program includes Main,
// which includes those that it needs, or the one of connections, which includes Main.
const (
	Dir  = "include"
	Main = "roce_xdp_abi.h"

	queues      = "roce_xdp_queues.h"
	connections = "roce_xdp_cm.h"
)

// elements are the structures of queues, which are in shared memory as they are.
var elements = []struct {
	v    any
	size int // of the whole, of which the fields are the beginning; 0: as Go has it
}{
	{queue.CQE{}, queue.CQESize}, {queue.SendWQE{}, 0}, {queue.RecvWQE{}, 0}, {queue.SGE{}, 0},
}

// messages are the structures that travel besides bodies of requests and replies.
var messages = []any{proto.Header{}, proto.Failure{}, proto.Span{}, proto.AsyncEvent{}}

// offset begins the comments of fields of queue elements.
var offset = regexp.MustCompile(`^\d+ ?`)

// writer makes the header.
type writer struct {
	strings.Builder
	comments comments
	written  map[string]bool
	sizes    map[string]int // of structures whose fields do not fill them
}

// Headers are the texts of the headers by their names, made of the sources at root.
func Headers(root string) (map[string]string, error) {
	w := &writer{comments: comments{}, written: map[string]bool{}, sizes: map[string]int{}}
	for _, dir := range []string{"internal/proto", "internal/queue"} {
		c, err := parse(filepath.Join(root, dir))
		if err != nil {
			return nil, err
		}
		for k, v := range c {
			if dir == "internal/queue" {
				v = offset.ReplaceAllString(v, "") // the structure of C shows it by itself
			}
			w.comments[k] = v
		}
	}
	return map[string]string{
		queues: w.file(queues, "Queues and doorbells in memory that a program and the daemon of roce-xdp share.", "#include <stdint.h>", w.elements),
		Main: w.file(Main, "Messages between a program and the daemon of roce-xdp.", include(queues), func() {
			w.constants()
			w.WriteString("\n/* Messages. */\n")
			w.structures(messages)
			w.bodies(false)
		}),
		connections: w.file(connections, "Messages of connections: those whose names begin with CM.", include(Main), func() {
			w.bodies(true)
			w.structures([]any{proto.CMEvent{}})
		}),
	}, nil
}

func include(name string) string { return `#include "` + name + `"` }

// file makes a header of what f writes. Structures of headers made before, which it
// includes, are not in it.
func (w *writer) file(name, what, includes string, f func()) string {
	guard := strings.ToUpper(strings.ReplaceAll(name, ".", "_"))
	w.Reset()
	fmt.Fprintf(w, preamble, what, includes, guard)
	f()
	fmt.Fprintf(w, coda, guard)
	return w.String()
}

// elements are rings, doorbells, and what is in queues.
func (w *writer) elements() {
	w.WriteString(strings.TrimPrefix(memory, "\n"))
	for _, e := range elements {
		t := reflect.TypeOf(e.v)
		w.sizes[t.Name()] = e.size
		w.structure(t)
	}
}

func (w *writer) structures(list []any) {
	for _, v := range list {
		w.structure(reflect.TypeOf(v))
	}
}

// bodies are those of requests about connections and their replies, or of all others.
func (w *writer) bodies(ofConnections bool) {
	for i := range proto.Messages {
		if m := &proto.Messages[i]; strings.HasPrefix(m.Name, "CM_") == ofConnections {
			w.structures([]any{m.Request, m.Reply})
		}
	}
}

// constants are numbers of operations, statuses and limits.
func (w *writer) constants() {
	w.define("VERSION", proto.Version, "of messages and shared memory")
	w.define("MIN_VERSION", proto.MinVersion, "")
	w.define("MAGIC", fmt.Sprintf("%#xu", proto.Magic), "first word of HELLO")
	w.define("MAX_MESSAGE", proto.MaxMessage, "bytes of a packet")
	w.define("MAX_FDS", proto.MaxFDs, "descriptors of a packet")
	w.define("MAX_ADVISE", proto.MaxAdvise, "entries of an ADVISE_MR")
	w.define("MAX_PRIVATE", proto.MaxPrivate, "bytes of private data")
	w.define("MEMORY_SHARED", proto.MemoryShared, "region of a buffer")
	w.define("MEMORY_INDIRECT", proto.MemoryIndirect, "region of memory that SET_MEMORY has handed over")
	w.define("MEMORY_IMPLICIT", proto.MemoryImplicit, "all of that")
	w.define("OBJECT_NONE", proto.ObjectNone, "event of the port or the device")
	w.define("OBJECT_QP", proto.ObjectQP, "")
	w.define("OBJECT_CQ", proto.ObjectCQ, "")
	w.define("OBJECT_SRQ", proto.ObjectSRQ, "")
	w.WriteString("\n/* Requests, with the bodies of request and reply. */\n")
	for i := range proto.Messages {
		m := &proto.Messages[i]
		note := snake(reflect.TypeOf(m.Request).Name()) + ", " + snake(reflect.TypeOf(m.Reply).Name())
		if m.FDsIn != "" {
			note += "; brings " + m.FDsIn
		}
		if m.FDsOut != "" {
			note += "; gets " + m.FDsOut
		}
		w.define("OP_"+m.Name, int(m.Op), note)
	}
	w.WriteString("\n/* Statuses of replies. */\n")
	for s := range proto.Status(256) {
		if name := s.String(); !strings.HasPrefix(name, "STATUS_") {
			w.define("STATUS_"+name, int(s), "")
		}
	}
}

func (w *writer) define(name string, v any, note string) {
	line := fmt.Sprintf("#define %-36s %v", strings.ToUpper(prefix)+name, v)
	if note != "" {
		line += " /* " + note + " */"
	}
	w.WriteString(line + "\n")
}

// structure writes a structure, after those that it contains, once.
func (w *writer) structure(t reflect.Type) {
	if w.written[t.Name()] || t.NumField() == 0 {
		return // C has no structures without fields: such a body is of 0 bytes
	}
	w.written[t.Name()] = true
	for i := range t.NumField() {
		if e := element(t.Field(i).Type); e.Kind() == reflect.Struct {
			w.structure(e)
		}
	}
	w.WriteString("\n")
	if doc := w.comments[t.Name()]; doc != "" {
		fmt.Fprintf(w, "/* %s */\n", strings.ReplaceAll(doc, "\n", "\n * "))
	}
	fmt.Fprintf(w, "%s {\n", structName(t.Name()))
	for i := range t.NumField() {
		w.field(t, t.Field(i))
	}
	w.padding(t)
	w.WriteString("};\n")
}

func (w *writer) field(t reflect.Type, f reflect.StructField) {
	dims := ""
	e := f.Type
	for e.Kind() == reflect.Array {
		dims += fmt.Sprintf("[%d]", e.Len())
		e = e.Elem()
	}
	line := fmt.Sprintf("\t%s %s%s;", ctype(e), snake(f.Name), dims)
	if c := w.comments[t.Name()+"."+f.Name]; c != "" {
		line += " /* " + c + " */"
	}
	w.WriteString(line + "\n")
}

// padding fills a structure up to what its element or its alignment takes.
func (w *writer) padding(t reflect.Type) {
	last := t.Field(t.NumField() - 1)
	end := int(last.Offset + last.Type.Size())
	if pad := max(w.sizes[t.Name()], int(t.Size())) - end; pad > 0 {
		fmt.Fprintf(w, "\tuint8_t reserved[%d];\n", pad)
	}
}

func element(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Array {
		t = t.Elem()
	}
	return t
}

func ctype(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct:
		return structName(t.Name())
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return t.Kind().String() + "_t"
	default:
		panic("a field of a type that has no fixed size: " + t.String()) // when the header is made, not in a program
	}
}
