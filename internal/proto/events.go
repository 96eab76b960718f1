package proto

// AsyncEvent is an asynchronous event (ibv_async_event): a packet of 16 bytes.
type AsyncEvent struct {
	Type   uint32 // ibv_event_type
	Object uint32 // which kind of object Handle is: ObjectNone and so on
	Handle uint64
}

// Kinds of objects that an event is about.
const (
	ObjectNone uint32 = 0 // the port or the device
	ObjectQP   uint32 = 1
	ObjectCQ   uint32 = 2
	ObjectSRQ  uint32 = 3
)
