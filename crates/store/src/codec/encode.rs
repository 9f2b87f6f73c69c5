//! Encoding of segments and blocks.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use muster_api::time::Time;
use muster_schema::object::Managed;
use muster_tree::{Text, Tree};

use super::{
    CHECKSUM_BYTES, DELETE, DELETE_CHANGED, FALSE, FLOAT, INT, KNOWN, LIST, MAP, NULL, PUT, TEXT, TRUE,
    checksum,
};
use crate::{Key, Record, StoredObject};

/// Back-reference numbers by memory address. Everything encoded stays alive until the end, so an address is unique.
type Numbers = HashMap<usize, u64, BuildHasherDefault<Spread>>;

/// Encodes records into one segment or block.
pub(crate) struct Encoder {
    bytes: Vec<u8>,
    records: u64,
    at: Time,
    texts: Numbers,
    branches: Numbers,
    owners: Numbers,
}

impl Encoder {
    /// An empty encoder; `at` is the time of the commit.
    pub(crate) fn new(at: Time) -> Self {
        let numbers = Numbers::default;
        Self { bytes: Vec::new(), records: 0, at, texts: numbers(), branches: numbers(), owners: numbers() }
    }

    /// Uncompressed bytes so far.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Encodes a change of the log.
    pub(crate) fn record(&mut self, record: &Record) {
        match (&record.after, &record.last) {
            (Some(object), _) => self.put(&record.key, object),
            (None, Some(last)) if record.before.as_ref().is_none_or(|before| differs(before, last)) => {
                self.begin(DELETE_CHANGED, &record.key, record.revision);
                self.object(last);
            }
            _ => self.begin(DELETE, &record.key, record.revision),
        }
    }

    /// Encodes the current state of an object, for a block.
    pub(crate) fn put(&mut self, key: &Key, object: &StoredObject) {
        self.begin(PUT, key, object.revision);
        self.object(object);
    }

    /// Returns the checksum followed by the compressed records.
    pub(crate) fn finish(self) -> Vec<u8> {
        let mut raw = Vec::with_capacity(self.bytes.len() + 20);
        write_number(&mut raw, self.at.0.cast_unsigned());
        write_number(&mut raw, self.records);
        raw.extend_from_slice(&self.bytes);
        let packed = lz4_flex::block::compress_prepend_size(&raw);
        let mut out = Vec::with_capacity(CHECKSUM_BYTES + packed.len());
        out.extend_from_slice(&checksum(&packed).to_le_bytes());
        out.extend_from_slice(&packed);
        out
    }

    fn begin(&mut self, kind: u8, key: &Key, revision: u64) {
        self.records += 1;
        self.bytes.push(kind);
        self.number(revision);
        self.text(&key.resource);
        self.text(&key.namespace);
        self.text(&key.name);
    }

    fn object(&mut self, object: &StoredObject) {
        self.tree(&object.tree);
        self.managed(&object.managed);
    }

    fn managed(&mut self, all: &Arc<[Managed]>) {
        if all.is_empty() {
            self.number(0);
            return;
        }
        if self.is_known(|me| &mut me.owners, all.as_ptr() as usize, 1) {
            return;
        }
        self.number(1);
        self.number(all.len() as u64);
        for entry in all.iter() {
            self.text(&entry.manager);
            self.bytes.push(u8::from(entry.applied));
            self.text(&entry.api_version);
            self.text(&entry.subresource);
            self.text(&entry.time);
            self.tree(&entry.fields);
        }
    }

    fn tree(&mut self, tree: &Tree) {
        match tree {
            Tree::Null => self.bytes.push(NULL),
            Tree::Bool(b) => self.bytes.push(if *b { TRUE } else { FALSE }),
            Tree::Int(n) => {
                self.bytes.push(INT);
                // Zigzag encoding: small negative numbers stay short.
                self.number(((n << 1) ^ (n >> 63)).cast_unsigned());
            }
            Tree::Float(n) => {
                self.bytes.push(FLOAT);
                self.bytes.extend_from_slice(&n.to_bits().to_le_bytes());
            }
            Tree::Text(text) => {
                self.bytes.push(TEXT);
                self.text(text);
            }
            Tree::List(items) => self.branch(tree, items.ptr() as usize),
            Tree::Map(entries) => self.branch(tree, entries.ptr() as usize),
        }
    }

    fn branch(&mut self, tree: &Tree, address: usize) {
        if let Some(number) = self.branches.get(&address).copied() {
            self.bytes.push(KNOWN);
            self.number(number);
            return;
        }
        if tree.is_list() {
            self.bytes.push(LIST);
            self.number(tree.items().len() as u64);
            tree.items().iter().for_each(|item| self.tree(item));
        } else {
            self.bytes.push(MAP);
            self.number(tree.entries().len() as u64);
            for (key, value) in tree.entries() {
                self.text(key);
                self.tree(value);
            }
        }
        // Numbered after its children, because the decoder can build a branch only then.
        let number = self.branches.len() as u64;
        self.branches.insert(address, number);
    }

    /// A number above 0 is a back-reference; 0 precedes a new string.
    fn text(&mut self, text: &Text) {
        if self.is_known(|me| &mut me.texts, text.as_ptr() as usize, 0) {
            return;
        }
        self.number(0);
        self.number(text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
    }

    /// Writes the back-reference of an address, offset by the `reserved` numbers, or assigns the next number to it.
    fn is_known(&mut self, of: fn(&mut Self) -> &mut Numbers, address: usize, reserved: u64) -> bool {
        let numbers = of(self);
        let next = numbers.len() as u64;
        match numbers.get(&address).copied() {
            Some(number) => {
                self.number(number + reserved + 1);
                true
            }
            None => {
                numbers.insert(address, next);
                false
            }
        }
    }

    fn number(&mut self, n: u64) {
        write_number(&mut self.bytes, n);
    }
}

/// Returns whether two states differ in more than their revision.
fn differs(a: &StoredObject, b: &StoredObject) -> bool {
    a.tree != b.tree || a.managed != b.managed
}

/// LEB128: seven bits per byte, lowest first; the high bit marks that more follow.
fn write_number(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push((n & 0x7f) as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

/// A hasher for addresses, which are all multiples of eight.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, _: &[u8]) {
        unreachable!("only addresses are hashed");
    }

    fn write_usize(&mut self, address: usize) {
        let mixed = (address as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ (mixed >> 32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
