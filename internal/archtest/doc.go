// Package archtest has only tests: they hold the architecture that
// docs/architecture.md describes and CONTRIBUTING.md demands, by reading the
// sources of the module. Imports point inward, the pure packages do no I/O and
// read no clock, unsafe stays in files that say so, files stay short.
package archtest
