//! Decoding of segments and blocks.

use std::sync::Arc;

use muster_api::time::Time;
use muster_schema::object::Managed;
use muster_tree::{DEPTH_MAX, Text, Tree};

use super::{
    CHECKSUM_BYTES, DELETE, DELETE_CHANGED, FALSE, FLOAT, INT, KNOWN, LIST, Logged, MAP, NULL, PUT, Segment,
    TEXT, TRUE, What, checksum,
};
use crate::share::Interner;
use crate::{Key, StoredObject};

/// Description of a corruption.
type Problem = &'static str;

/// Decodes a segment or block and interns its trees.
pub(crate) fn decode(bytes: &[u8], shelter: &mut Interner) -> Result<Segment, Problem> {
    let (sum, packed) = bytes.split_at_checked(CHECKSUM_BYTES).ok_or("too short")?;
    if sum != checksum(packed).to_le_bytes() {
        return Err("the checksum does not match");
    }
    let raw = lz4_flex::block::decompress_size_prepended(packed).map_err(|_| "it does not decompress")?;
    let mut decoder =
        Decoder { left: &raw, shelter, texts: Vec::new(), branches: Vec::new(), owners: Vec::new() };
    let at = Time(decoder.number()?.cast_signed());
    let count = decoder.count()?;
    let records = (0..count).map(|_| decoder.record()).collect::<Result<_, _>>()?;
    if decoder.left.is_empty() { Ok(Segment { at, records }) } else { Err("bytes are left over") }
}

struct Decoder<'a> {
    left: &'a [u8],
    shelter: &'a mut Interner,
    texts: Vec<Text>,
    branches: Vec<Tree>,
    owners: Vec<Arc<[Managed]>>,
}

impl Decoder<'_> {
    fn record(&mut self) -> Result<Logged, Problem> {
        let kind = self.byte()?;
        let revision = self.number()?;
        let key = Key { resource: self.text()?, namespace: self.text()?, name: self.text()? };
        let what = match kind {
            PUT => What::Put(self.object(revision)?),
            DELETE => What::Delete(None),
            DELETE_CHANGED => What::Delete(Some(self.object(revision)?)),
            _ => return Err("a record of unknown kind"),
        };
        Ok(Logged { revision, key, what })
    }

    fn object(&mut self, revision: u64) -> Result<StoredObject, Problem> {
        // The root of an object is not interned: no other object is equal to it.
        let tree = self.tree(0, Interner::own_branch)?;
        let managed = self.managed()?;
        Ok(StoredObject { tree, managed, revision })
    }

    fn managed(&mut self) -> Result<Arc<[Managed]>, Problem> {
        match self.number()? {
            0 => Ok(self.shelter.nobody()),
            1 => {
                let count = self.count()?;
                // Numbered before its parts are decoded, as the encoder did.
                let entries = (0..count).map(|_| self.owner()).collect::<Result<Arc<[_]>, _>>()?;
                let entries = self.shelter.owners(entries);
                self.owners.push(entries.clone());
                Ok(entries)
            }
            n => Ok(known(&self.owners, n - 2)?.clone()),
        }
    }

    fn owner(&mut self) -> Result<Managed, Problem> {
        Ok(Managed {
            manager: self.text()?,
            applied: self.byte()? == 1,
            api_version: self.text()?,
            subresource: self.text()?,
            time: self.text()?,
            fields: self.tree(0, Interner::branch)?,
        })
    }

    fn tree(&mut self, depth: usize, share: fn(&mut Interner, Tree) -> Tree) -> Result<Tree, Problem> {
        if depth > DEPTH_MAX {
            return Err("it nests too deeply");
        }
        let made = match self.byte()? {
            NULL => return Ok(Tree::Null),
            FALSE => return Ok(Tree::Bool(false)),
            TRUE => return Ok(Tree::Bool(true)),
            INT => {
                let n = self.number()?;
                return Ok(Tree::Int((n >> 1).cast_signed() ^ -(n & 1).cast_signed()));
            }
            FLOAT => return Ok(Tree::Float(f64::from_bits(u64::from_le_bytes(self.array()?)))),
            TEXT => return Ok(Tree::Text(self.text()?)),
            KNOWN => {
                let number = self.number()?;
                return Ok(known(&self.branches, number)?.clone());
            }
            LIST => Tree::list(self.items(depth)?),
            MAP => self.entries(depth)?,
            _ => return Err("a value of unknown type"),
        };
        let made = share(self.shelter, made);
        self.branches.push(made.clone());
        Ok(made)
    }

    fn items(&mut self, depth: usize) -> Result<Vec<Tree>, Problem> {
        let count = self.count()?;
        (0..count).map(|_| self.tree(depth + 1, Interner::branch)).collect()
    }

    fn entries(&mut self, depth: usize) -> Result<Tree, Problem> {
        let count = self.count()?;
        let mut entries = Vec::with_capacity(count);
        for _ in 0..count {
            entries.push((self.text()?, self.tree(depth + 1, Interner::branch)?));
        }
        if entries.is_sorted_by(|a, b| a.0 < b.0) {
            Ok(Tree::from_sorted(entries))
        } else {
            Err("keys out of order")
        }
    }

    fn text(&mut self) -> Result<Text, Problem> {
        match self.number()? {
            0 => {
                let len = self.count()?;
                let (bytes, left) = self.left.split_at_checked(len).ok_or("it ends too early")?;
                self.left = left;
                let text = std::str::from_utf8(bytes).map_err(|_| "a text is not UTF-8")?;
                let text = self.shelter.text(&Text::from(text));
                self.texts.push(text.clone());
                Ok(text)
            }
            n => Ok(known(&self.texts, n - 1)?.clone()),
        }
    }

    /// A count of items. Each takes at least one byte, so a corrupt count fails before memory is allocated for it.
    fn count(&mut self) -> Result<usize, Problem> {
        let count = usize::try_from(self.number()?).map_err(|_| "a count is too large")?;
        if count <= self.left.len() { Ok(count) } else { Err("it ends too early") }
    }

    fn number(&mut self) -> Result<u64, Problem> {
        let mut n = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            n |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(n);
            }
        }
        Err("a number does not end")
    }

    fn byte(&mut self) -> Result<u8, Problem> {
        let [byte] = self.array()?;
        Ok(byte)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Problem> {
        let (bytes, left) = self.left.split_first_chunk().ok_or("it ends too early")?;
        self.left = left;
        Ok(*bytes)
    }
}

fn known<T>(all: &[T], number: u64) -> Result<&T, Problem> {
    usize::try_from(number).ok().and_then(|n| all.get(n)).ok_or("it refers to something that was not written")
}
