'use strict'

// The control server of this process: one that runs already, or a program that it starts and that ends behind it.

const { spawn } = require('node:child_process')
const fs = require('node:fs')
const path = require('node:path')
const readline = require('node:readline')

const PACKAGE = 'broker-sim[control,tls]'
const INSTALL = `python3 -m pip install '${PACKAGE}' installs it; BROKER_SIM_COMMAND names another program, as in python3 -m broker_sim, ` +
  'and BROKER_SIM_CONTROL the address of a control server that runs already'

let shared

/** The server of this process; a start that failed is tried again by the next call. */
function find() {
  shared ??= start().catch((failure) => {
    shared = undefined
    throw failure
  })
  return shared
}

async function start() {
  const address = process.env.BROKER_SIM_CONTROL
  if (address) {
    return { url: address.replace(/\/+$/, ''), token: process.env.BROKER_SIM_CONTROL_TOKEN }
  }
  const { words, seconds } = program()
  const [command, ...more] = words
  const child = spawn(command, [...more, 'serve', '--control', '0', '--until-eof'], { stdio: 'pipe' })
  let said = ''
  child.stderr.on('data', (text) => {
    process.stderr.write(text)
    said = (said + text).slice(-4000)
  })
  const url = await ready(child, words.join(' '), seconds, () => said)
  // it ends at the end of its stdin, with this process, which does not wait for it
  for (const one of [child, child.stdin, child.stdout, child.stderr]) {
    one.unref()
  }
  return { url }
}

function ready(child, name, seconds, said) {
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => {
      child.kill()
      reject(new Error(`${name} is not ready after ${seconds} s`))
    }, seconds * 1000)
    child.on('error', (error) => {
      clearTimeout(late)
      reject(new Error(`can't start ${name}: ${error.message}; ${INSTALL}`))
    })
    child.on('close', () => {
      clearTimeout(late)
      const text = said().trim()
      reject(new Error(`${name} ended before it was ready${text ? `:\n${text}` : `, without a word; ${INSTALL}`}`))
    })
    readline.createInterface({ input: child.stdout }).on('line', (line) => {
      const found = /^broker-sim control: (http\S+)$/.exec(line)
      if (found) {
        clearTimeout(late)
        resolve(found[1])
      }
    })
  })
}

/**
 * The command in BROKER_SIM_COMMAND, broker-sim on the PATH, or, where BROKER_SIM_FETCH is set, uvx or pipx, which fetch it; and how long its
 * start may take.
 */
function program() {
  const words = (process.env.BROKER_SIM_COMMAND ?? '').split(/\s+/).filter(Boolean)
  if (words.length > 0) {
    return { words, seconds: 30 }
  }
  const fetch = Boolean(process.env.BROKER_SIM_FETCH)
  const fetchers = [
    ['uvx', ['--from', PACKAGE, 'broker-sim'], 180],
    ['pipx', ['run', '--spec', PACKAGE, 'broker-sim'], 180]
  ]
  for (const [name, more, seconds] of [['broker-sim', [], 30], ...(fetch ? fetchers : [])]) {
    const found = onPath(name)
    if (found) {
      return { words: [found, ...more], seconds }
    }
  }
  if (!fetch) {
    throw new Error(`no broker-sim on the PATH; ${INSTALL}; BROKER_SIM_FETCH=1 has uvx or pipx fetch it`)
  }
  throw new Error(`no broker-sim on the PATH, nor uvx or pipx to fetch it; ${INSTALL}`)
}

function onPath(name) {
  const file = process.platform === 'win32' ? `${name}.exe` : name
  return (process.env.PATH ?? '').split(path.delimiter).map((folder) => path.join(folder, file)).find((one) => {
    try {
      fs.accessSync(one, fs.constants.X_OK)
      return fs.statSync(one).isFile()
    } catch {
      return false
    }
  })
}

module.exports = { find }
