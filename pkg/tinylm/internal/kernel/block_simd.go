//go:build goexperiment.simd && amd64

package kernel

import "simd/archsimd"

// addBlock is addBlockPlain, eight output elements at a time.
func addBlock(out []float32, x *[block]float32, w []float32) {
	const lanes = 8
	n := len(out)
	if n%lanes != 0 || !archsimd.X86.AVX2() {
		addBlockPlain(out, x, w)
		return
	}
	f0, f1, f2, f3 := archsimd.BroadcastFloat32x8(x[0]), archsimd.BroadcastFloat32x8(x[1]),
		archsimd.BroadcastFloat32x8(x[2]), archsimd.BroadcastFloat32x8(x[3])
	f4, f5, f6, f7 := archsimd.BroadcastFloat32x8(x[4]), archsimd.BroadcastFloat32x8(x[5]),
		archsimd.BroadcastFloat32x8(x[6]), archsimd.BroadcastFloat32x8(x[7])
	w0, w1, w2, w3 := w[:n], w[n:][:n], w[2*n:][:n], w[3*n:][:n]
	w4, w5, w6, w7 := w[4*n:][:n], w[5*n:][:n], w[6*n:][:n], w[7*n:][:n]
	for j := 0; j <= n-lanes; j += lanes {
		sum := archsimd.LoadFloat32x8Slice(out[j:])
		sum = sum.Add(f0.Mul(archsimd.LoadFloat32x8Slice(w0[j:])))
		sum = sum.Add(f1.Mul(archsimd.LoadFloat32x8Slice(w1[j:])))
		sum = sum.Add(f2.Mul(archsimd.LoadFloat32x8Slice(w2[j:])))
		sum = sum.Add(f3.Mul(archsimd.LoadFloat32x8Slice(w3[j:])))
		sum = sum.Add(f4.Mul(archsimd.LoadFloat32x8Slice(w4[j:])))
		sum = sum.Add(f5.Mul(archsimd.LoadFloat32x8Slice(w5[j:])))
		sum = sum.Add(f6.Mul(archsimd.LoadFloat32x8Slice(w6[j:])))
		sum = sum.Add(f7.Mul(archsimd.LoadFloat32x8Slice(w7[j:])))
		sum.StoreSlice(out[j:])
	}
}
