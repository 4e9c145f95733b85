package audio

// Checksums as FLAC and Ogg have them: most significant bit first, without
// inversion, which hash/crc32 does not offer.
var (
	crc8Table  = crcTable[uint8](0x07)
	crc16Table = crcTable[uint16](0x8005)
	crc32Table = crcTable[uint32](0x04c11db7)
)

func crcTable[T uint8 | uint16 | uint32](polynomial T) *[256]T {
	var zero T
	top := ^zero ^ (^zero >> 1)
	shift := 0
	for v := ^zero >> 7 >> 1; v != 0; v >>= 1 {
		shift++ // the width less 8
	}
	var table [256]T
	for i := range table {
		v := T(i) << shift
		for range 8 {
			if v&top != 0 {
				v = v<<1 ^ polynomial
			} else {
				v <<= 1
			}
		}
		table[i] = v
	}
	return &table
}

func crc8Of(b []byte) (sum uint8) {
	for _, c := range b {
		sum = crc8Table[sum^c]
	}
	return sum
}

func crc16Of(sum uint16, b []byte) uint16 {
	for _, c := range b {
		sum = sum<<8 ^ crc16Table[byte(sum>>8)^c]
	}
	return sum
}

func crc32Of(sum uint32, b []byte) uint32 {
	for _, c := range b {
		sum = sum<<8 ^ crc32Table[byte(sum>>24)^c]
	}
	return sum
}
