// Package serve is the daemon's end of the verbs protocol: it shares devices out to
// programs that connect to a unix socket.
//
// A connection is a client, a session here: it opens one device, in which it has a
// namespace of its own ([Namespace]), and names what it makes there by handles that
// mean nothing to others. Memory of its queues and buffers lies in segments that are
// the client's alone. The session ends when the connection does, whatever the client
// was in the middle of: its connections are closed, its queue pairs and regions
// destroyed, its memory and descriptors given back.
//
// # Who may block whom
//
// A goroutine for each session reads requests and answers them. What may take long
// (waiting for a next hop, for a page) runs in goroutines of its own, a bounded number
// of them for each client. A client that does not read its replies holds up itself
// alone, and is thrown out after a while; one that does not read its asynchronous
// events finds fewer of them, since those that say the same are one; one that does not
// read the events of its connections is thrown out when too many wait. The datapath
// waits for no client: the event of a completion queue is sent or, when the client has
// so many unread that it must wake up anyway, left away.
//
// # What is believed
//
// Nothing. Sizes, numbers, handles, descriptors are checked here; what lies in shared
// memory, by the datapath. A message that is none, or comes out of place, is answered
// with StatusProtocol and ends the session if there is nothing sensible to answer.
package serve
