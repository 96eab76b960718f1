package ibv

var accessNames = []flagName{
	{uint32(AccessLocalWrite), "LOCAL_WRITE"},
	{uint32(AccessRemoteWrite), "REMOTE_WRITE"},
	{uint32(AccessRemoteRead), "REMOTE_READ"},
	{uint32(AccessRemoteAtomic), "REMOTE_ATOMIC"},
	{uint32(AccessMWBind), "MW_BIND"},
	{uint32(AccessZeroBased), "ZERO_BASED"},
	{uint32(AccessOnDemand), "ON_DEMAND"},
	{uint32(AccessHugeTLB), "HUGETLB"},
	{uint32(AccessFlushGlobal), "FLUSH_GLOBAL"},
	{uint32(AccessFlushPersistent), "FLUSH_PERSISTENT"},
	{uint32(AccessRelaxedOrdering), "RELAXED_ORDERING"},
}

// String lists the rights: "LOCAL_WRITE|REMOTE_READ".
func (a Access) String() string { return flagString(uint32(a), accessNames) }
