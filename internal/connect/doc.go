// Package connect brings queue pairs from RESET to RTS and exchanges what the
// two ends must know of each other over a TCP connection, the way test programs
// do it that have no connection manager: lines of JSON, each an answer or a
// reason why there is none.
package connect
