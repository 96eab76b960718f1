package wire

import "strconv"

// RejReason is why a REJ was sent (IBTA vol. 1, chapter 12).
type RejReason uint16

// Reasons of a REJ.
const (
	RejNoQP                   RejReason = 1
	RejNoEEC                  RejReason = 2
	RejNoResources            RejReason = 3
	RejTimeout                RejReason = 4
	RejUnsupported            RejReason = 5
	RejInvalidCommID          RejReason = 6
	RejInvalidCommInstance    RejReason = 7
	RejInvalidServiceID       RejReason = 8 // nobody listens
	RejInvalidTransportType   RejReason = 9
	RejStaleConn              RejReason = 10
	RejRDCNotExist            RejReason = 11
	RejInvalidGID             RejReason = 12
	RejInvalidLID             RejReason = 13
	RejInvalidSL              RejReason = 14
	RejInvalidTrafficClass    RejReason = 15
	RejInvalidHopLimit        RejReason = 16
	RejInvalidPacketRate      RejReason = 17
	RejInvalidAltGID          RejReason = 18
	RejInvalidAltLID          RejReason = 19
	RejInvalidAltSL           RejReason = 20
	RejInvalidAltTrafficClass RejReason = 21
	RejInvalidAltHopLimit     RejReason = 22
	RejInvalidAltPacketRate   RejReason = 23
	RejPortCMRedirect         RejReason = 24
	RejPortRedirect           RejReason = 25
	RejInvalidMTU             RejReason = 26
	RejInsufficientResources  RejReason = 27 // responder resources
	RejConsumer               RejReason = 28 // the application said no
	RejInvalidRNRRetry        RejReason = 29
	RejDuplicateLocalCommID   RejReason = 30
	RejInvalidClassVersion    RejReason = 31
	RejInvalidFlowLabel       RejReason = 32
	RejInvalidAltFlowLabel    RejReason = 33
	RejVendorOption           RejReason = 35
)

var rejReasonNames = [...]string{
	RejNoQP: "no QP available", RejNoEEC: "no EE context", RejNoResources: "no resources", RejTimeout: "timeout",
	RejUnsupported: "unsupported request", RejInvalidCommID: "invalid communication id",
	RejInvalidCommInstance: "invalid communication instance", RejInvalidServiceID: "invalid service id (nobody listens)",
	RejInvalidTransportType: "invalid transport service type", RejStaleConn: "stale connection",
	RejRDCNotExist: "RDC does not exist", RejInvalidGID: "invalid primary GID", RejInvalidLID: "invalid primary LID",
	RejInvalidSL: "invalid primary SL", RejInvalidTrafficClass: "invalid primary traffic class",
	RejInvalidHopLimit: "invalid primary hop limit", RejInvalidPacketRate: "invalid primary packet rate",
	RejInvalidAltGID: "invalid alternate GID", RejInvalidAltLID: "invalid alternate LID", RejInvalidAltSL: "invalid alternate SL",
	RejInvalidAltTrafficClass: "invalid alternate traffic class", RejInvalidAltHopLimit: "invalid alternate hop limit",
	RejInvalidAltPacketRate: "invalid alternate packet rate", RejPortCMRedirect: "port and CM redirection",
	RejPortRedirect: "port redirection", RejInvalidMTU: "invalid path MTU", RejInsufficientResources: "insufficient responder resources",
	RejConsumer: "rejected by the application", RejInvalidRNRRetry: "invalid RNR retry count",
	RejDuplicateLocalCommID: "duplicate local communication id", RejInvalidClassVersion: "invalid class version",
	RejInvalidFlowLabel: "invalid primary flow label", RejInvalidAltFlowLabel: "invalid alternate flow label",
	RejVendorOption: "vendor option not supported",
}

func (r RejReason) String() string {
	if int(r) < len(rejReasonNames) && rejReasonNames[r] != "" {
		return rejReasonNames[r]
	}
	return "REJ(" + strconv.Itoa(int(r)) + ")"
}

// SIDRStatus is the outcome in a SIDR_REP.
type SIDRStatus uint8

// Outcomes of a SIDR_REQ.
const (
	SIDRSuccess       SIDRStatus = 0
	SIDRUnsupported   SIDRStatus = 1 // nobody listens
	SIDRRejected      SIDRStatus = 2 // the application said no
	SIDRNoQP          SIDRStatus = 3
	SIDRRedirect      SIDRStatus = 4
	SIDRUnsupportedVn SIDRStatus = 5 // version
)

var sidrStatusNames = [...]string{
	"success", "unsupported service id", "rejected by the service", "no QP available", "redirect", "unsupported version",
}

func (s SIDRStatus) String() string {
	if int(s) < len(sidrStatusNames) {
		return sidrStatusNames[s]
	}
	return "SIDR_STATUS(" + strconv.Itoa(int(s)) + ")"
}

// APStatus is the outcome in an APR.
type APStatus uint8

// Outcomes of a LAP; there are more, about single fields of the path.
const (
	APSuccess       APStatus = 0
	APInvalidCommID APStatus = 1
	APUnsupported   APStatus = 2 // no alternate paths here
	APRejected      APStatus = 3
	APRedirect      APStatus = 4
	APIsCurrent     APStatus = 5
	APQPNMismatch   APStatus = 6
)
