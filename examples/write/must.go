package main

// failure carries an error out of must and ok to caught.
type failure struct{ err error }

// must returns v, or ends run with err.
func must[T any](v T, err error) T {
	ok(err)
	return v
}

// ok ends run with err unless that is nil.
func ok(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// caught makes the error of must and ok the result of run.
func caught(err *error) {
	switch r := recover().(type) {
	case nil:
	case failure:
		*err = r.err
	default:
		panic(r)
	}
}
