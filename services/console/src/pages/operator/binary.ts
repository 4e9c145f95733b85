// Bytes, which the API writes in base64.

/** The bytes in hexadecimal; empty for a text that is no base64. */
export function hex(base64: string): string {
  return Array.from(bytes(base64) ?? [], (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** The bytes that a base64 text stands for; null for another text. */
export function bytes(base64: string): Uint8Array | null {
  try {
    return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  } catch {
    return null;
  }
}
