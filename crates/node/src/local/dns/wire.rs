//! DNS wire format (RFC 1035, 2308, 2782, 6891).

use std::net::IpAddr;

use super::{DOMAIN, Record};

/// TTL of records: short, since names follow pods.
const TTL_SECS: u32 = 5;
/// Maximum length of a name on the wire.
const NAME_MAX: usize = 255;
/// Maximum UDP reply, whatever EDNS allows: avoids IP fragmentation.
const ROOM_MAX: usize = 1232;
/// Fewest bytes that every asker takes.
const ROOM_MIN: usize = 512;

const HEADER: usize = 12;
const IN: u16 = 1;
const ANY: u16 = 255;
const A: u16 = 1;
const SOA: u16 = 6;
const PTR: u16 = 12;
const AAAA: u16 = 28;
const SRV: u16 = 33;
const OPT: u16 = 41;

const IS_REPLY: u16 = 0x8000;
const OPERATION: u16 = 0x7800;
const AUTHORITATIVE: u16 = 0x0400;
const TRUNCATED: u16 = 0x0200;
const RECURSION_DESIRED: u16 = 0x0100;
const RECURSION_AVAILABLE: u16 = 0x0080;

/// The query cannot be read.
pub(super) const FORMAT_ERROR: u16 = 1;
/// SERVFAIL: the upstream servers did not answer.
const SERVER_FAILURE: u16 = 2;
/// NXDOMAIN: there is no such name.
const NAME_ERROR: u16 = 3;
/// NOTIMP: the operation is not supported.
pub(super) const NOT_IMPLEMENTED: u16 = 4;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Query {
    pub(super) id: u16,
    flags: u16,
    /// Lower-case name without the trailing dot.
    pub(super) name: String,
    kind: u16,
    class: u16,
    /// The question as received: clients with 0x20 encoding compare its case.
    raw: Vec<u8>,
    /// Reply limit from EDNS.
    pub(super) room: Option<usize>,
}

/// Why a message is not a valid query.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum QueryError {
    /// Too short, or a reply.
    NotAQuery,
    /// It cannot be read.
    Malformed(u16),
    /// An operation other than QUERY.
    NotHere(u16),
}

fn read_u16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

impl Query {
    /// Parses a query with one question.
    pub(super) fn read(bytes: &[u8]) -> Result<Query, QueryError> {
        let field = |at| read_u16(bytes, at).ok_or(QueryError::NotAQuery);
        let (id, flags) = (field(0)?, field(2)?);
        let (questions, more) = (field(4)?, field(10)?);
        if flags & IS_REPLY != 0 {
            return Err(QueryError::NotAQuery);
        }
        if flags & OPERATION != 0 {
            return Err(QueryError::NotHere(id));
        }
        let wrong = || QueryError::Malformed(id);
        if questions != 1 {
            return Err(wrong());
        }
        let (name, end) = read_name(bytes, HEADER).ok_or_else(wrong)?;
        let kind = read_u16(bytes, end).ok_or_else(wrong)?;
        let class = read_u16(bytes, end + 2).ok_or_else(wrong)?;
        let raw = bytes[HEADER..end + 4].to_vec();
        let room = if more > 0 { extension(&bytes[end + 4..]) } else { None };
        Ok(Query { id, flags, name, kind, class, raw, room })
    }

    /// Whether a record matches the queried type and class.
    pub(super) fn wants(&self, record: &Record) -> bool {
        let class = self.class == IN || self.class == ANY;
        class && (self.kind == kind_of(record) || (self.kind == ANY && matches!(record, Record::Address(_))))
    }
}

/// Reads a name; returns its end. Questions have no compression pointers, and a label with a dot matches no name of
/// ours.
fn read_name(bytes: &[u8], start: usize) -> Option<(String, usize)> {
    let mut name = String::new();
    let mut at = start;
    loop {
        let length = usize::from(*bytes.get(at)?);
        at += 1;
        if length == 0 {
            return Some((name, at));
        }
        let label = bytes.get(at..at + length).filter(|_| length < 64)?;
        at += length;
        if at - start > NAME_MAX || label.contains(&b'.') || !label.is_ascii() {
            return None;
        }
        if !name.is_empty() {
            name.push('.');
        }
        name.extend(label.iter().map(|letter| char::from(letter.to_ascii_lowercase())));
    }
}

/// The EDNS reply limit, from the OPT record after the question.
fn extension(rest: &[u8]) -> Option<usize> {
    let is_opt = rest.first() == Some(&0) && read_u16(rest, 1) == Some(OPT);
    let room = read_u16(rest, 3).filter(|_| is_opt)?;
    Some(usize::from(room).clamp(ROOM_MIN, ROOM_MAX))
}

fn kind_of(record: &Record) -> u16 {
    match record {
        Record::Address(IpAddr::V4(_)) => A,
        Record::Address(IpAddr::V6(_)) => AAAA,
        Record::Service { .. } => SRV,
        Record::Pointer(_) => PTR,
    }
}

/// A reply with an error code and no question.
pub(super) fn refusal(id: u16, code: u16) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER);
    for field in [id, IS_REPLY | code, 0, 0, 0, 0] {
        bytes.extend(field.to_be_bytes());
    }
    bytes
}

pub(super) struct Reply<'a> {
    to: &'a Query,
    code: u16,
    answers: (u16, Vec<u8>),
    authority: (u16, Vec<u8>),
    additional: (u16, Vec<u8>),
}

impl<'a> Reply<'a> {
    /// An empty reply to a query.
    pub(super) fn to(to: &'a Query) -> Reply<'a> {
        let additional = match to.room {
            // RFC 6891: a query with OPT gets a reply with OPT.
            Some(_) => {
                (1, [&[0][..], &OPT.to_be_bytes(), &(ROOM_MAX as u16).to_be_bytes(), &[0; 6]].concat())
            }
            None => (0, Vec::new()),
        };
        Reply { to, code: 0, answers: (0, Vec::new()), authority: (0, Vec::new()), additional }
    }

    /// Adds a record of the queried name.
    pub(super) fn answer(&mut self, record: &Record) {
        // A compression pointer to the name in the question.
        push(&mut self.answers, &[0xc0, HEADER as u8], record);
    }

    /// Adds the address of an SRV target to the additional section.
    pub(super) fn beside(&mut self, name: &str, record: &Record) {
        if matches!(record, Record::Address(_)) {
            push(&mut self.additional, &encode_name(name), record);
        }
    }

    /// NODATA or NXDOMAIN, with the SOA record for negative caching.
    pub(super) fn nothing(&mut self, exists: bool) {
        if !exists {
            self.code = NAME_ERROR;
        }
        let mut data = encode_name(&format!("ns.dns.{DOMAIN}"));
        data.extend(encode_name(&format!("hostmaster.{DOMAIN}")));
        // Serial, refresh, retry, expire, and the TTL of negative replies.
        for number in [1, 7200, 1800, 86_400, TTL_SECS] {
            data.extend(u32::to_be_bytes(number));
        }
        push_data(&mut self.authority, &encode_name(DOMAIN), SOA, &data);
    }

    /// SERVFAIL: the upstream servers did not answer.
    pub(super) fn failed(&mut self) {
        self.code = SERVER_FAILURE;
    }

    /// Encodes the reply; one that does not fit is truncated to its header and question.
    pub(super) fn bytes(self, room: usize) -> Vec<u8> {
        let whole = HEADER
            + self.to.raw.len()
            + self.answers.1.len()
            + self.authority.1.len()
            + self.additional.1.len();
        let cut = whole > room;
        let failed = self.code == SERVER_FAILURE;
        let mut flags = IS_REPLY | RECURSION_AVAILABLE | self.code | (self.to.flags & RECURSION_DESIRED);
        flags |= if cut { TRUNCATED } else { 0 } | if failed { 0 } else { AUTHORITATIVE };
        let sections = if cut {
            [(0, Vec::new()), (0, Vec::new()), (0, Vec::new())]
        } else {
            [self.answers, self.authority, self.additional]
        };
        let counts = sections.each_ref().map(|(count, _)| *count);
        let mut bytes = Vec::with_capacity(whole.min(room));
        for field in [self.to.id, flags, 1].into_iter().chain(counts) {
            bytes.extend(field.to_be_bytes());
        }
        bytes.extend(&self.to.raw);
        sections.iter().for_each(|(_, section)| bytes.extend(section));
        bytes
    }
}

/// A name in labels.
fn encode_name(name: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(name.len() + 2);
    for label in name.split('.').filter(|label| !label.is_empty()) {
        // Object names are shorter; the length byte has six bits.
        let label = &label.as_bytes()[..label.len().min(63)];
        bytes.push(label.len() as u8);
        bytes.extend(label);
    }
    bytes.push(0);
    bytes
}

fn push(section: &mut (u16, Vec<u8>), name: &[u8], record: &Record) {
    let data = match record {
        Record::Address(IpAddr::V4(address)) => address.octets().to_vec(),
        Record::Address(IpAddr::V6(address)) => address.octets().to_vec(),
        // Priority 0 and weight 100, as CoreDNS.
        Record::Service { port, target } => {
            [&[0, 0, 0, 100][..], &port.to_be_bytes(), &encode_name(target)].concat()
        }
        Record::Pointer(name) => encode_name(name),
    };
    push_data(section, name, kind_of(record), &data);
}

fn push_data(section: &mut (u16, Vec<u8>), name: &[u8], kind: u16, data: &[u8]) {
    let (count, bytes) = section;
    *count = count.saturating_add(1);
    bytes.extend(name);
    bytes.extend(kind.to_be_bytes());
    bytes.extend(IN.to_be_bytes());
    bytes.extend(TTL_SECS.to_be_bytes());
    bytes.extend((data.len() as u16).to_be_bytes());
    bytes.extend(data);
}
