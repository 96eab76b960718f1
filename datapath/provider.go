package datapath

import (
	"context"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/verbs"
)

var (
	_ verbs.Provider = (*Device)(nil)
	_ verbs.Provider = (*Client)(nil)
)

// A program that has opened the device uses it by these methods, as a client of its
// own that has no limits; they are those of Client.

// AllocPD is Client.AllocPD.
func (d *Device) AllocPD() (uint32, error) { return d.root.AllocPD() }

// DeallocPD is Client.DeallocPD.
func (d *Device) DeallocPD(pd uint32) error { return d.root.DeallocPD(pd) }

// AllocBuffer is Client.AllocBuffer.
func (d *Device) AllocBuffer(n int) ([]byte, error) { return d.root.AllocBuffer(n) }

// FreeBuffer is Client.FreeBuffer.
func (d *Device) FreeBuffer(b []byte) error { return d.root.FreeBuffer(b) }

// RegisterMemory is Client.RegisterMemory.
func (d *Device) RegisterMemory(pd uint32, b []byte, access ibv.Access) (verbs.ProviderMR, error) {
	return d.root.RegisterMemory(pd, b, access)
}

// RegisterImplicit is Client.RegisterImplicit.
func (d *Device) RegisterImplicit(pd uint32, access ibv.Access) (verbs.ProviderMR, error) {
	return d.root.RegisterImplicit(pd, access)
}

// ReregisterMemory is Client.ReregisterMemory.
func (d *Device) ReregisterMemory(mr verbs.ProviderMR, to *verbs.ProviderRereg) (verbs.ProviderMR, error) {
	return d.root.ReregisterMemory(mr, to)
}

// AdviseMemory is Client.AdviseMemory.
func (d *Device) AdviseMemory(pd uint32, advice ibv.Advice, sges []verbs.SGE) error {
	return d.root.AdviseMemory(pd, advice, sges)
}

// DeregisterMemory is Client.DeregisterMemory.
func (d *Device) DeregisterMemory(mr verbs.ProviderMR) error { return d.root.DeregisterMemory(mr) }

// AllocMW is Client.AllocMW.
func (d *Device) AllocMW(pd uint32, typ ibv.MWType) (verbs.ProviderMW, error) {
	return d.root.AllocMW(pd, typ)
}

// DeallocMW is Client.DeallocMW.
func (d *Device) DeallocMW(mw verbs.ProviderMW) error { return d.root.DeallocMW(mw) }

// AllocFastMR is Client.AllocFastMR.
func (d *Device) AllocFastMR(pd uint32, limit uint64) (verbs.ProviderMR, error) {
	return d.root.AllocFastMR(pd, limit)
}

// DeallocFastMR is Client.DeallocFastMR.
func (d *Device) DeallocFastMR(mr verbs.ProviderMR) error { return d.root.DeallocFastMR(mr) }

// CreateCQ is Client.CreateCQ.
func (d *Device) CreateCQ(entries int) (verbs.ProviderCQ, error) { return d.root.CreateCQ(entries) }

// CreateSRQ is Client.CreateSRQ.
func (d *Device) CreateSRQ(init *verbs.ProviderSRQInit) (verbs.ProviderSRQ, error) {
	return d.root.CreateSRQ(init)
}

// OpenXRCD is Client.OpenXRCD.
func (d *Device) OpenXRCD(attr *verbs.XRCDInitAttr) (uint32, error) { return d.root.OpenXRCD(attr) }

// CloseXRCD is Client.CloseXRCD.
func (d *Device) CloseXRCD(id uint32) error { return d.root.CloseXRCD(id) }

// OpenQP is Client.OpenQP.
func (d *Device) OpenQP(id, qpn uint32) (verbs.ProviderQP, error) { return d.root.OpenQP(id, qpn) }

// CreateQP is Client.CreateQP.
func (d *Device) CreateQP(attr *verbs.ProviderQPInit) (verbs.ProviderQP, error) {
	return d.root.CreateQP(attr)
}

// CreateAH is Client.CreateAH.
func (d *Device) CreateAH(ctx context.Context, pd uint32, av *ibv.AddressVector) (uint32, error) {
	return d.root.CreateAH(ctx, pd, av)
}

// DestroyAH is Client.DestroyAH.
func (d *Device) DestroyAH(handle uint32) error { return d.root.DestroyAH(handle) }

// NextEvent is Client.NextEvent.
func (d *Device) NextEvent(ctx context.Context) (verbs.ProviderEvent, error) {
	return d.root.NextEvent(ctx)
}

// Subscribe is Client.Subscribe.
func (d *Device) Subscribe(types ...ibv.EventType) (verbs.ProviderEvents, error) {
	return d.root.Subscribe(types...)
}
