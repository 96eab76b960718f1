package bpf

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// AddAddress makes the program steer RoCEv2 that is sent to the address: one of
// the interface's own, or a multicast group. IPv4 and its IPv4-mapped IPv6 form
// are the same; a zone is ignored, for the program sees one interface only.
// Doing it twice is doing it once. More than [MaxAddresses] fail with [ErrRange].
func (s *Steer) AddAddress(address netip.Addr) error {
	return s.locked("add address", address, func() error {
		key, err := gid(address)
		if err != nil {
			return err
		}
		var value steerAddress
		if address.Unmap().IsMulticast() {
			value.Flags = AddressGroup
		}
		err = s.objects.Addresses.Put(key, value)
		if errors.Is(err, unix.E2BIG) {
			return fmt.Errorf("%w: all %d places for addresses are taken (%w)", ErrRange, MaxAddresses, err)
		}
		return err
	})
}

// DelAddress undoes AddAddress: the kernel gets the frames from then on. It is
// no error that the address is not registered.
func (s *Steer) DelAddress(address netip.Addr) error {
	return s.locked("delete address", address, func() error {
		key, err := gid(address)
		if err != nil {
			return err
		}
		err = s.objects.Addresses.Delete(key)
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return nil
		}
		return err
	})
}

// Addresses lists what is registered, IPv4 as IPv4, in no order.
func (s *Steer) Addresses() ([]netip.Addr, error) {
	var list []netip.Addr
	err := s.locked("list addresses", nil, func() error {
		var key [GIDSize]byte
		var value steerAddress
		entries := s.objects.Addresses.Iterate()
		for entries.Next(&key, &value) {
			list = append(list, netip.AddrFrom16(key).Unmap())
		}
		return entries.Err()
	})
	return list, err
}

// gid is the address as the program looks it up.
func gid(address netip.Addr) ([GIDSize]byte, error) {
	if !address.IsValid() || address.Unmap().IsUnspecified() {
		return [GIDSize]byte{}, rangeError("want a unicast or multicast IP address")
	}
	return address.As16(), nil
}
