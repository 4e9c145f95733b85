//go:build !goexperiment.simd || !amd64

package kernel

func addBlock(out []float32, x *[block]float32, w []float32) { addBlockPlain(out, x, w) }
