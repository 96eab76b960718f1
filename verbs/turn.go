package verbs

import "context"

// turn is a lock for which can be waited until a context ends.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

// take waits for the lock. An error is that of ctx; then it is not held.
func (t turn) take(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t turn) give() { <-t }
