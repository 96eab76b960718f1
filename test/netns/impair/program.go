package impair

import (
	"encoding/binary"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// Offsets and sizes of config and Counts.
const (
	offSeed      = 0
	offOther     = 8
	offDrop      = 16
	offDuplicate = 24
	offCorrupt   = 32
	configSize   = 40

	offFrames     = 0
	offDropped    = 8
	offDuplicated = 16
	offCorrupted  = 24
	countsSize    = 32
)

// Where things are in a frame and in the context.
const (
	offEtherType  = 12
	endOfEthernet = 14
	skbLen        = 0 // of struct __sk_buff
	scratch       = -8
)

// Verdicts.
const (
	actOK   = 0
	actShot = 2
)

// Registers that calls leave alone: the context, the counts, a random number, the
// place of a corruption.
const (
	rCtx    = asm.R6
	rCounts = asm.R7
	rRandom = asm.R8
	rPlace  = asm.R9
)

// program decides about the frames of one direction. Config and counts are the
// only elements of maps.
func program(config, counts int) *ebpf.ProgramSpec {
	var p asm.Instructions
	add := func(ins ...asm.Instruction) { p = append(p, ins...) }

	add(asm.Mov.Reg(rCtx, asm.R1))
	p = append(p, onlyRoCE()...)
	add(asm.LoadMapValue(rCounts, counts, 0).WithSymbol("roce"))

	// The n-th frame has the n-th number of the sequence that the seed begins.
	add(
		asm.Mov.Imm(rRandom, 1),
		fetchAdd(rCounts, rRandom, offFrames),
		asm.LoadImm(asm.R1, -0x61c8864680b583eb, asm.DWord), // 2^64 divided by the golden ratio
		asm.Mul.Reg(rRandom, asm.R1),
		asm.LoadMapValue(asm.R1, config, offSeed),
		asm.LoadMem(asm.R1, asm.R1, 0, asm.DWord),
		asm.Add.Reg(rRandom, asm.R1),
	)
	p = append(p, mix()...)

	// Dropped?
	p = append(p, chance(config, offDrop, "stays")...)
	p = append(p, countOne(offDropped)...)
	add(asm.Mov.Imm(asm.R0, actShot), asm.Return())

	// Duplicated? The copy goes straight to the other port.
	p = append(p, label("stays", mix())...)
	p = append(p, chance(config, offDuplicate, "single")...)
	add(
		asm.Mov.Reg(asm.R1, rCtx),
		asm.LoadMapValue(asm.R2, config, offOther),
		asm.LoadMem(asm.R2, asm.R2, 0, asm.DWord),
		asm.Mov.Imm(asm.R3, 0),
		asm.FnCloneRedirect.Call(),
		asm.JNE.Imm(asm.R0, 0, "single"),
	)
	p = append(p, countOne(offDuplicated)...)

	// Corrupted?
	p = append(p, label("single", mix())...)
	p = append(p, chance(config, offCorrupt, "pass")...)
	p = append(p, flip()...)
	p = append(p, countOne(offCorrupted)...)
	add(asm.Mov.Imm(asm.R0, actOK).WithSymbol("pass"), asm.Return())
	return &ebpf.ProgramSpec{Name: "impair", Type: ebpf.SchedCLS, License: "Dual BSD/GPL", Instructions: p}
}

// fetchAdd adds a register to a word and gives it what the word was. The encoder
// of the library takes which atomic it is from Constant alone.
func fetchAdd(dst, src asm.Register, offset int16) asm.Instruction {
	const fetch = 1
	ins := asm.FetchAdd.Mem(dst, src, asm.DWord, offset)
	ins.Constant = fetch
	return ins
}

// onlyRoCE passes every frame that is not untagged IPv4 or IPv6 with the UDP port
// 4791 as its destination.
func onlyRoCE() asm.Instructions {
	const (
		typeIPv4, typeIPv6         = 0x0800, 0x86dd
		protocolIPv4, protocolIPv6 = endOfEthernet + 9, endOfEthernet + 6
		portIPv4, portIPv6         = endOfEthernet + 20 + 2, endOfEthernet + 40 + 2
		udp, roce                  = 17, 4791
	)
	var p asm.Instructions
	is := func(off int32, size asm.Size, value uint16, other string) {
		want := int32(value)
		if size == asm.Half {
			want = int32(binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, value)))
		}
		p = append(p, load(off, int32(size.Sizeof()))...)
		p = append(p,
			asm.JNE.Imm(asm.R0, 0, "pass"), // shorter than that
			asm.LoadMem(asm.R1, asm.RFP, scratch, size),
			asm.JNE.Imm(asm.R1, want, other),
		)
	}
	is(offEtherType, asm.Half, typeIPv4, "not IPv4")
	is(protocolIPv4, asm.Byte, udp, "pass")
	is(portIPv4, asm.Half, roce, "pass")
	p = append(p, asm.Ja.Label("roce"))
	start := len(p)
	is(offEtherType, asm.Half, typeIPv6, "pass")
	p[start] = p[start].WithSymbol("not IPv4")
	is(protocolIPv6, asm.Byte, udp, "pass")
	is(portIPv6, asm.Half, roce, "pass")
	return p
}

// load copies n bytes of the frame at off to the scratch word; R0 is 0 if they
// are there.
func load(off, n int32) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R1, rCtx),
		asm.Mov.Imm(asm.R2, off),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, scratch),
		asm.Mov.Imm(asm.R4, n),
		asm.FnSkbLoadBytes.Call(),
	}
}

// mix makes another random number of rRandom: the output function of splitmix64.
func mix() asm.Instructions {
	shift := func(n int32) asm.Instructions {
		return asm.Instructions{
			asm.Mov.Reg(asm.R1, rRandom),
			asm.RSh.Imm(asm.R1, n),
			asm.Xor.Reg(rRandom, asm.R1),
		}
	}
	times := func(factor int64) asm.Instructions {
		return asm.Instructions{asm.LoadImm(asm.R1, factor, asm.DWord), asm.Mul.Reg(rRandom, asm.R1)}
	}
	var p asm.Instructions
	for _, part := range []asm.Instructions{shift(30), times(-0x40a7b892e31b1a47), shift(27), times(-0x6b2fb644ecceee15), shift(31)} {
		p = append(p, part...)
	}
	return p
}

// chance goes on if the low half of rRandom is below a threshold, else to other.
func chance(config int, threshold uint32, other string) asm.Instructions {
	return asm.Instructions{
		asm.LoadMapValue(asm.R1, config, threshold),
		asm.LoadMem(asm.R1, asm.R1, 0, asm.DWord),
		asm.Mov.Reg32(asm.R2, rRandom),
		asm.JGE.Reg(asm.R2, asm.R1, other),
	}
}

func countOne(counter int16) asm.Instructions {
	return asm.Instructions{asm.Mov.Imm(asm.R1, 1), asm.AddAtomic.Mem(rCounts, asm.R1, asm.DWord, counter)}
}

// flip inverts one bit behind the Ethernet header. The high half of rRandom says
// which byte, its low bits which bit.
func flip() asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(asm.R2, rCtx, skbLen, asm.Word),
		asm.Sub.Imm(asm.R2, endOfEthernet),
		asm.Mov.Reg(rPlace, rRandom),
		asm.RSh.Imm(rPlace, 32),
		asm.Mod.Reg(rPlace, asm.R2),
		asm.Add.Imm(rPlace, endOfEthernet),

		asm.Mov.Reg(asm.R1, rCtx),
		asm.Mov.Reg(asm.R2, rPlace),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, scratch),
		asm.Mov.Imm(asm.R4, 1),
		asm.FnSkbLoadBytes.Call(),
		asm.JNE.Imm(asm.R0, 0, "pass"),

		asm.And.Imm(rRandom, 7),
		asm.Mov.Imm(asm.R1, 1),
		asm.LSh.Reg(asm.R1, rRandom),
		asm.LoadMem(asm.R2, asm.RFP, scratch, asm.Byte),
		asm.Xor.Reg(asm.R2, asm.R1),
		asm.StoreMem(asm.RFP, scratch, asm.R2, asm.Byte),

		asm.Mov.Reg(asm.R1, rCtx),
		asm.Mov.Reg(asm.R2, rPlace),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, scratch),
		asm.Mov.Imm(asm.R4, 1),
		asm.Mov.Imm(asm.R5, 0),
		asm.FnSkbStoreBytes.Call(),
		asm.JNE.Imm(asm.R0, 0, "pass"),
	}
}

func label(name string, p asm.Instructions) asm.Instructions {
	if len(p) == 0 {
		panic(fmt.Sprintf("impair: nothing to put label %q on", name))
	}
	p[0] = p[0].WithSymbol(name)
	return p
}
