/*
 * Stands in for the audio decoder that Ollama's multimodal code compiles
 * against. The module archive leaves the real header out, and the engine built
 * here only ever serves text, so each function declines: audio input is answered
 * with an error, all else works.
 */
#ifndef SVC_ENGINE_MINIAUDIO_H
#define SVC_ENGINE_MINIAUDIO_H

#include <stddef.h>
#include <stdint.h>

typedef int ma_result;
typedef uint32_t ma_uint32;
typedef uint64_t ma_uint64;

#define MA_SUCCESS 0
#define MA_NOT_IMPLEMENTED (-29)

typedef enum {
	ma_format_unknown = 0,
	ma_format_f32 = 5
} ma_format;

typedef struct {
	ma_format format;
	ma_uint32 channels;
	ma_uint32 sample_rate;
} ma_decoder_config;

typedef struct {
	ma_decoder_config config;
} ma_decoder;

static inline ma_decoder_config ma_decoder_config_init(ma_format format, ma_uint32 channels, ma_uint32 sample_rate) {
	ma_decoder_config config = {format, channels, sample_rate};
	return config;
}

static inline ma_result ma_decoder_init_memory(const void *data, size_t size, const ma_decoder_config *config, ma_decoder *decoder) {
	(void)data;
	(void)size;
	decoder->config = *config;
	return MA_NOT_IMPLEMENTED;
}

static inline ma_result ma_decoder_get_length_in_pcm_frames(ma_decoder *decoder, ma_uint64 *frames) {
	(void)decoder;
	*frames = 0;
	return MA_NOT_IMPLEMENTED;
}

static inline ma_result ma_decoder_read_pcm_frames(ma_decoder *decoder, void *out, ma_uint64 wanted, ma_uint64 *read) {
	(void)decoder;
	(void)out;
	(void)wanted;
	*read = 0;
	return MA_NOT_IMPLEMENTED;
}

static inline void ma_decoder_uninit(ma_decoder *decoder) {
	(void)decoder;
}

#endif
