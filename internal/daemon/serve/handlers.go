package serve

import "github.com/roce-xdp/roce-xdp/internal/proto"

// handlers are what requests are executed by. Those that may wait for a peer, for a
// page or for such a request are slow.
var handlers map[proto.Op]handler

func init() { // handlers that dispatch requests would make it depend on itself
	handlers = map[proto.Op]handler{
		proto.OpHello:   on(hello),
		proto.OpDevices: on(devices),
		proto.OpOpen:    on(openDevice),
		proto.OpCancel:  on(cancelCall),

		proto.OpMapSegment:  in(mapSegment),
		proto.OpQueryDevice: in(queryDevice),
		proto.OpQueryPort:   in(queryPort),
		proto.OpQueryClock:  in(queryClock),
		proto.OpQueryGIDs:   in(queryGIDs),
		proto.OpResolve:     in(resolve).slowly(),
		proto.OpCounters:    in(counters),
		proto.OpSetMemory:   in(setMemory).taking(1),

		proto.OpAllocPD:     in(allocPD),
		proto.OpDeallocPD:   in(deallocPD),
		proto.OpAllocBuffer: in(allocBuffer),
		proto.OpFreeBuffer:  in(freeBuffer),
		proto.OpRegMR:       in(regMR),
		proto.OpReregMR:     in(reregMR),
		proto.OpAdviseMR:    in(adviseMR).slowly(),
		proto.OpDeregMR:     in(deregMR),
		proto.OpAllocMW:     in(allocMW),
		proto.OpDeallocMW:   in(deallocMW),
		proto.OpAllocFastMR: in(allocFastMR),
		proto.OpDeallocFast: in(deallocFast),

		proto.OpCreateCQ:   in(createCQ),
		proto.OpResizeCQ:   in(resizeCQ),
		proto.OpModifyCQ:   in(modifyCQ),
		proto.OpQueryCQ:    in(queryCQ),
		proto.OpDestroyCQ:  in(destroyCQ),
		proto.OpCreateSRQ:  in(createSRQ),
		proto.OpModifySRQ:  in(modifySRQ),
		proto.OpQuerySRQ:   in(querySRQ),
		proto.OpDestroySRQ: in(destroySRQ),
		proto.OpOpenXRCD:   in(openXRCD),
		proto.OpCloseXRCD:  in(closeXRCD),

		proto.OpCreateQP:    in(createQP),
		proto.OpOpenQP:      in(openQP),
		proto.OpModifyQP:    in(modifyQP).slowly(),
		proto.OpQueryQP:     in(queryQP),
		proto.OpDestroyQP:   in(destroyQP).slowly(),
		proto.OpAttachMcast: in(attachMcast).slowly(),
		proto.OpDetachMcast: in(detachMcast).slowly(),
		proto.OpCreateAH:    in(createAH).slowly(),
		proto.OpDestroyAH:   in(destroyAH),

		proto.OpCMOpen:        on(cmOpen),
		proto.OpCMClose:       on(cmClose),
		proto.OpCMCreate:      cm(cmCreate),
		proto.OpCMSetOptions:  cm(cmSetOptions),
		proto.OpCMBind:        cm(cmBind),
		proto.OpCMListen:      cm(cmListen),
		proto.OpCMResolve:     cm(cmResolve).slowly(),
		proto.OpCMConnect:     cm(cmConnect),
		proto.OpCMAccept:      cm(cmAccept),
		proto.OpCMReject:      cm(cmReject),
		proto.OpCMEstablished: cm(cmEstablished),
		proto.OpCMDisconnect:  cm(cmDisconnect),
		proto.OpCMDestroy:     cm(cmDestroy),
		proto.OpCMQPAttr:      cm(cmQPAttr),
		proto.OpCMInfo:        cm(cmInfo),
		proto.OpCMQPNHeld:     cm(cmQPNHeld),
		proto.OpCMCounters:    cm(cmCounters),
	}
}
