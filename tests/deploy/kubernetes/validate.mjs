// Reads manifests (YAML) from standard input and validates each against the schema of Kubernetes for its kind.
// Writes {"documents": [...], "errors": [...]} as JSON. Usage: node validate.mjs MODULES, the directory of what `npm ci` installed.
import fs from 'node:fs';
import {createRequire} from 'node:module';
import path from 'node:path';

const require = createRequire(path.join(path.resolve(process.argv[2]), 'package.json'));
const yaml = require('yaml');

function modelOf(document) {
  const {apiVersion, kind} = document ?? {};
  if (!apiVersion || !kind) throw new Error('it has no apiVersion or no kind');
  let models;
  try {
    models = require(`kubernetes-models/${apiVersion}`);
  } catch {
    throw new Error(`Kubernetes has no API ${apiVersion}`);
  }
  if (typeof models[kind] !== 'function') throw new Error(`${apiVersion} has no kind ${kind}`);
  return models[kind];
}

// A view of `value` that notes in `read` which members are read. The schemas accept fields that they do not know, as a server of
// another version may know them. But a validator reads every field that its schema has, so a field that it never reads is unknown.
function watched(value, at, read) {
  if (value === null || typeof value !== 'object') return value;
  const members = new Map();
  return new Proxy(value, {
    get(target, name) {
      if (typeof name !== 'string' || !Object.hasOwn(target, name)) return target[name];
      read.add(`${at}/${name}`);
      if (!members.has(name)) members.set(name, watched(target[name], `${at}/${name}`, read));
      return members.get(name);
    },
  });
}

// Appends the fields that are not in `read`; what is below an unknown field is not listed.
function unknownFields(value, at, read, unknown) {
  if (value === null || typeof value !== 'object') return;
  for (const [name, member] of Object.entries(value)) {
    if (read.has(`${at}/${name}`)) unknownFields(member, `${at}/${name}`, read, unknown);
    else unknown.push(`${at}/${name}: no such field`);
  }
}

function errorsOf(document) {
  const model = modelOf(document);
  const read = new Set(['/apiVersion', '/kind']);
  const errors = [];
  try {
    model.prototype.validate.call(watched(document, '', read));
  } catch (error) {
    if (!error.errors) throw error;
    errors.push(...error.errors.map(found => `${found.instancePath || '/'}: ${found.message ?? found.keyword} ${JSON.stringify(found.params)}`));
  }
  unknownFields(document, '', read, errors);
  return errors;
}

const answer = {documents: [], errors: []};
for (const parsed of yaml.parseAllDocuments(fs.readFileSync(0, 'utf8'), {merge: true})) {
  answer.errors.push(...parsed.errors.map(error => `not YAML: ${error.message}`));
  if (parsed.errors.length > 0) continue;
  const document = parsed.toJS();
  answer.documents.push(document);
  const name = `${document?.kind} ${document?.metadata?.name}`;
  try {
    answer.errors.push(...errorsOf(document).map(error => `${name}: ${error}`));
  } catch (error) {
    answer.errors.push(`${name}: ${error.message}`);
  }
}
process.stdout.write(JSON.stringify(answer) + '\n');
