// Compiles the contracts and writes an artifact of each: node compile.mjs <npm folder> <output folder>.
// The npm folder is that of deploy/dev/tool.sh contracts. Compiler, library and settings are pinned and no metadata is
// appended, so the same sources give the same bytes on each machine.
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const [tools, out] = process.argv.slice(2)
const here = dirname(fileURLToPath(import.meta.url))
const solc = createRequire(join(tools, 'package.json'))('solc')

const names = ['', 'hostile'].flatMap((dir) =>
  readdirSync(join(here, dir)).filter((file) => file.endsWith('.sol')).sort().map((file) => join(dir, file)))
const input = {
  language: 'Solidity',
  sources: Object.fromEntries(names.map((name) => [name, { content: readFileSync(join(here, name), 'utf8') }])),
  settings: {
    evmVersion: 'paris', // chains without PUSH0 run it, too
    optimizer: { enabled: true, runs: 200 },
    metadata: { appendCBOR: false, bytecodeHash: 'none' },
    outputSelection: {
      '*': { '*': ['abi', 'evm.bytecode.object', 'evm.deployedBytecode.object', 'evm.deployedBytecode.immutableReferences'] }
    }
  }
}
const read = (path) => {
  try {
    return { contents: readFileSync(join(tools, 'node_modules', path), 'utf8') }
  } catch (fault) {
    return { error: String(fault) }
  }
}
const output = JSON.parse(solc.compile(JSON.stringify(input), { import: read }))
const faults = (output.errors ?? []).filter((e) => e.severity === 'error' || !e.sourceLocation?.file.startsWith('hostile/'))
if (faults.length > 0) {
  console.error(faults.map((e) => e.formattedMessage).join('\n'))
  process.exit(1)
}
for (const name of names) {
  const dir = join(out, dirname(name))
  mkdirSync(dir, { recursive: true })
  for (const [contract, made] of Object.entries(output.contracts[name])) {
    const { bytecode, deployedBytecode } = made.evm
    const refs = Object.values(deployedBytecode.immutableReferences ?? {}).flat().sort((a, b) => a.start - b.start)
    const artifact = {
      contract,
      compiler: solc.version(),
      abi: made.abi,
      creation: '0x' + bytecode.object,
      runtime: '0x' + deployedBytecode.object,
      immutables: refs
    }
    // One line for each member of the ABI, so that a diff shows what has changed.
    const abi = made.abi.map((member) => '    ' + JSON.stringify(member)).join(',\n')
    const text = JSON.stringify({ ...artifact, abi: '@abi' }, null, 2).replace('"@abi"', `[\n${abi}\n  ]`)
    writeFileSync(join(dir, contract + '.json'), text + '\n')
  }
}
