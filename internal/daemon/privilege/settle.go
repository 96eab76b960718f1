package privilege

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
)

// Spec is what a process is to become.
type Spec struct {
	// User is its user, by name or number; empty: the one it has.
	User string
	// Group is one to be a member of besides the user's own, by name or number; empty: none.
	Group string
}

// settledEnv tells the program that executes again that it has been here.
const settledEnv = "ROCE_XDP_SETTLED"

// ErrUser is wrapped when the process cannot become the user.
var ErrUser = errors.New("cannot change the user")

// identity is a Spec with numbers.
type identity struct {
	uid, gid int
	groups   []int
	change   bool // another user than now
}

// Settle makes the process what the spec says, with the capabilities of Kept that it
// has, no others, and no way to get any. It returns nil in a process that is that. Else it
// executes the program again, with the same arguments, and returns only when that fails.
// prepare, if not nil, is called before with the user and group to be: for what needs the
// privileges that are given up.
func Settle(s Spec, prepare func(uid, gid int) error) error {
	now, err := Current()
	if err != nil {
		return err
	}
	again := os.Getenv(settledEnv) != ""
	if err := os.Unsetenv(settledEnv); err != nil {
		return err
	}
	id, err := s.resolve(now)
	if err != nil {
		return err
	}
	// Before anything is changed: who started it wrongly is told what is missing.
	if err := now.Check(); err != nil {
		return err
	}
	if again || !id.change && now.settled() {
		return nil
	}
	if prepare != nil {
		if err := prepare(id.uid, id.gid); err != nil {
			return err
		}
	}
	return fmt.Errorf("give up privileges: %w", become(id, now))
}

// settled reports whether nothing is left that could be given up.
func (s State) settled() bool {
	canBound := s.Effective&setPCap != 0 && s.Bounding&^Kept != 0
	return s.NoNewPrivs && s.Permitted&^Kept == 0 && !canBound
}

// resolve looks the user and the group up.
func (s Spec) resolve(now State) (identity, error) {
	id := identity{uid: now.UID, gid: os.Getegid()}
	if s.User != "" {
		u, err := lookupUser(s.User)
		if err != nil {
			return id, fmt.Errorf("%w: %w", ErrUser, err)
		}
		if id.uid, err = strconv.Atoi(u.Uid); err != nil {
			return id, fmt.Errorf("%w: number of user %s: %w", ErrUser, s.User, err)
		}
		if id.gid, err = strconv.Atoi(u.Gid); err != nil {
			return id, fmt.Errorf("%w: group of user %s: %w", ErrUser, s.User, err)
		}
		id.change = id.uid != now.UID
		if id.groups, err = groupsOf(u); err != nil {
			return id, err
		}
	}
	if id.change && now.Effective&setUID == 0 {
		return id, fmt.Errorf("%w: it was started as user %d and cannot become %s: start it as root, or leave user out", ErrUser, now.UID, s.User)
	}
	if s.Group != "" {
		gid, err := LookupGroup(s.Group)
		if err != nil {
			return id, err
		}
		id.groups = append(id.groups, gid)
	}
	return id, nil
}

// lookupUser finds a user by name or number. A number needs no entry.
func lookupUser(name string) (*user.User, error) {
	u, err := user.Lookup(name)
	if err == nil {
		return u, nil
	}
	if _, isNumber := strconv.ParseUint(name, 10, 32); isNumber != nil {
		return nil, unknown("user", "/etc/passwd", name, err)
	}
	if u, err := user.LookupId(name); err == nil {
		return u, nil
	}
	return &user.User{Uid: name, Gid: name, Username: name}, nil
}

// LookupGroup is the number of a group, given by name or number.
func LookupGroup(name string) (int, error) {
	g, err := user.LookupGroup(name)
	if err == nil {
		return strconv.Atoi(g.Gid)
	}
	gid, isNumber := strconv.ParseUint(name, 10, 32)
	if isNumber != nil {
		return 0, unknown("group", "/etc/group", name, err)
	}
	return int(gid), nil
}

// unknown says where a name was looked for, because there may be users elsewhere: a static
// program does not ask what nsswitch.conf names.
func unknown(what, file, name string, err error) error {
	var u user.UnknownUserError
	var g user.UnknownGroupError
	if !errors.As(err, &u) && !errors.As(err, &g) {
		return fmt.Errorf("%s %s: %w", what, name, err)
	}
	return fmt.Errorf("there is no %s %s in %s: one of a directory service (LDAP, SSSD) is given by number", what, name, file)
}

// LookupUser is the number of a user, given by name or number.
func LookupUser(name string) (int, error) {
	u, err := lookupUser(name)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(u.Uid)
}

// groupsOf are the groups that the user is a member of. One without an entry has none.
func groupsOf(u *user.User) ([]int, error) {
	if u.HomeDir == "" {
		return nil, nil
	}
	ids, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("groups of user %s: %w", u.Username, err)
	}
	var groups []int
	for _, id := range ids {
		gid, err := strconv.Atoi(id)
		if err != nil {
			return nil, fmt.Errorf("groups of user %s: %w", u.Username, err)
		}
		groups = append(groups, gid)
	}
	return groups, nil
}
