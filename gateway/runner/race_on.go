//go:build race

package runner

// raceDetector: under it compiling a module takes forty seconds instead of two,
// so modules are interpreted there.
const raceDetector = true
