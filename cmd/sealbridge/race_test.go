//go:build race

package main

// raced: the race detector takes several times the memory of what it watches.
const raced = true
