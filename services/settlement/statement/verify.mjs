#!/usr/bin/env node
// Checks a provider's daily statement without any code of the service:
//
//   node verify.mjs statement.json signer [earnings.csv]
//
// statement.json is the answer of GET /api/v1/provider/statements/{day}, signer the address of the key "statement"
// that GET /api/v1/stats/signers shows, and earnings.csv the day's GET /api/v1/provider/earnings.csv.
import { readFileSync } from "node:fs";
import { secp256k1 } from "@noble/curves/secp256k1";
import { sha256 } from "@noble/hashes/sha2";
import { keccak_256 as keccak } from "@noble/hashes/sha3";
import { bytesToHex as hex, concatBytes as concat, hexToBytes, utf8ToBytes as utf8 } from "@noble/hashes/utils";

const [path, signer, csvPath] = process.argv.slice(2);
const answer = JSON.parse(readFileSync(path, "utf8"));
const s = answer.statement;

const bytes = (text) => hexToBytes(text.replace(/^0x/, ""));
const word = (n) => bytes(BigInt(n).toString(16).padStart(64, "0"));
const left = (b) => concat(new Uint8Array(32 - b.length), b);
const right = (b) => concat(b, new Uint8Array(32 - b.length));
const text = (t) => keccak(utf8(t));
// The canonical form of RFC 8785, for objects whose values are texts, lists, objects and booleans.
const canonical = (v) => Array.isArray(v) ? `[${v.map(canonical)}]`
  : v && typeof v === "object" ? `{${Object.keys(v).sort().map((k) => `${JSON.stringify(k)}:${canonical(v[k])}`)}}`
  : JSON.stringify(v);

let wrong = 0;
const check = (what, holds) => {
  console.log(`  ${holds ? "ok   " : "WRONG"} ${what}`);
  if (!holds) wrong++;
};

// The leaf is hashed twice, and each pair of nodes in its own order (OpenZeppelin's MerkleProof).
const leaf = keccak(keccak(concat(word(s.leaf.index), left(bytes(s.leaf.beneficiary)), word(s.leaf.amount_nano_usd))));
check("the leaf is that of index, beneficiary and amount", hex(leaf) === hex(bytes(s.leaf.hash)));
const root = s.proof.map(bytes).reduce((node, other) =>
  keccak(hex(node) < hex(other) ? concat(node, other) : concat(other, node)), leaf);
check("the proof leads from the leaf to the batch's root", hex(root) === hex(bytes(s.root)));
check("the share is what was earned less what was given, and what is carried",
  BigInt(s.earned_nano_usd) - BigInt(s.given_nano_usd) - BigInt(s.carried_nano_usd) === BigInt(s.leaf.amount_nano_usd));
if (csvPath) check("the CSV is the one that the statement was made of", hex(sha256(readFileSync(csvPath))) === s.csv_sha256);

const summary = keccak(utf8(canonical(s)));
const domain = keccak(concat(text("EIP712Domain(string name,string version)"), text("Daily statement"), text("1")));
const struct = keccak(concat(
  text("Statement(bytes32 provider,string day,uint256 chainId,uint256 index,address beneficiary,uint256 amountNanoUsd," +
    "bytes32 root,bytes32 csv,bytes32 seal,bytes32 summary)"),
  right(bytes(s.provider_id.replaceAll("-", ""))), text(s.day), word(s.chain_id), word(s.leaf.index),
  left(bytes(s.leaf.beneficiary)), word(s.leaf.amount_nano_usd), bytes(s.root), bytes(s.csv_sha256), bytes(s.seal), summary));
const digest = keccak(concat(bytes("1901"), domain, struct));
const signature = bytes(answer.signature);
const key = secp256k1.Signature.fromCompact(signature.slice(0, 64)).addRecoveryBit(signature[64] - 27)
  .recoverPublicKey(digest).toRawBytes(false);
const by = hex(keccak(key.slice(1)).slice(12));
check(`the statement is signed by ${signer}`, by === hex(bytes(signer)));
process.exit(wrong ? 1 : 0);
