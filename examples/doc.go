// Package examples has programs, one in each directory; README.md says what they are.
package examples
