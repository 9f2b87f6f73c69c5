//! SSH keys by which the MPI launcher reaches its nodes: ECDSA P-521 in PEM (RFC 5915) and as an `authorized_keys` line.
//!
//! # Guarantees
//!
//! - A pure function of the entropy that is passed in.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use p521::SecretKey;
use p521::elliptic_curve::sec1::ToSec1Point;

use crate::build::KeyPair;

/// Bytes of entropy for a pair: the size of a scalar of the curve.
pub const ENTROPY_BYTES: usize = 66;
/// P-521 scalars have 521 bits: one bit of the first byte.
const FIRST_BITS: u8 = 1;

/// A key pair in the formats of ssh.
#[derive(Clone, PartialEq, Eq)]
pub struct SshKeys {
    private: String,
    public: String,
}

impl SshKeys {
    /// Derives the pair from entropy.
    #[must_use]
    pub fn of(chance: [u8; ENTROPY_BYTES]) -> SshKeys {
        let secret = secret(chance);
        let point = secret.public_key().to_sec1_point(false);
        SshKeys {
            private: pem(&private(&secret.to_bytes(), point.as_bytes())),
            public: line(point.as_bytes()),
        }
    }

    #[must_use]
    pub fn pair(&self) -> KeyPair<'_> {
        KeyPair { private: &self.private, public: &self.public }
    }
}

/// The private scalar: not zero, and below the order of the curve.
fn secret(mut chance: [u8; ENTROPY_BYTES]) -> SecretKey {
    chance[0] &= FIRST_BITS;
    SecretKey::from_slice(&chance).unwrap_or_else(|_| {
        // Zero or beyond the order, which is less likely than a hardware fault; clearing one byte keeps it in range.
        chance[0] = 0;
        chance[ENTROPY_BYTES - 1] |= 1;
        SecretKey::from_slice(&chance).expect("a number of 520 bits is below the order")
    })
}

/// DER tags, and the `version` field.
const SEQUENCE: u8 = 0x30;
const OCTETS: u8 = 0x04;
const BITS: u8 = 0x03;
const CURVE: u8 = 0xa0;
const PUBLIC: u8 = 0xa1;
const VERSION: [u8; 3] = [0x02, 0x01, 0x01];
/// DER of the curve's OID, 1.3.132.0.35.
const NAME: [u8; 7] = [0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x23];

/// An RFC 5915 private key with its curve and public key, which ssh requires.
fn private(secret: &[u8], point: &[u8]) -> Vec<u8> {
    let bits = [&[0_u8][..], point].concat();
    let parts = [
        VERSION.to_vec(),
        tagged(OCTETS, secret),
        tagged(CURVE, &NAME),
        tagged(PUBLIC, &tagged(BITS, &bits)),
    ];
    tagged(SEQUENCE, &parts.concat())
}

/// A DER element; no content here is longer than 255 bytes.
fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = u8::try_from(content.len()).expect("parts of such a key are short");
    let long = [tag, 0x81, length];
    let head = if length < 0x80 { vec![tag, length] } else { long.to_vec() };
    [head, content.to_vec()].concat()
}

/// Line length of PEM.
const LINE: usize = 64;

fn pem(bytes: &[u8]) -> String {
    let text = STANDARD.encode(bytes);
    let lines = text.as_bytes().chunks(LINE).map(String::from_utf8_lossy);
    let lines: String = lines.map(|line| format!("{line}\n")).collect();
    format!("-----BEGIN EC PRIVATE KEY-----\n{lines}-----END EC PRIVATE KEY-----\n")
}

/// An `authorized_keys` line: each part is preceded by its length.
fn line(point: &[u8]) -> String {
    const KIND: &str = "ecdsa-sha2-nistp521";
    let parts = [KIND.as_bytes(), b"nistp521", point];
    let told = |part: &[u8]| {
        let length = u32::try_from(part.len()).expect("parts of such a key are short");
        [&length.to_be_bytes()[..], part].concat()
    };
    format!("{KIND} {}\n", STANDARD.encode(parts.map(told).concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Vec<u8> {
        STANDARD.decode(text).unwrap()
    }

    fn body(pem: &str) -> Vec<u8> {
        bytes(&pem.lines().filter(|line| !line.starts_with('-')).collect::<String>())
    }

    #[test]
    fn one_is_the_base_point_of_the_curve() {
        let mut one = [0; ENTROPY_BYTES];
        one[ENTROPY_BYTES - 1] = 1;
        let keys = SshKeys::of(one);
        // The first bytes of the base point of P-521.
        let blob = bytes(keys.pair().public.split(' ').nth(1).unwrap().trim());
        let point = &blob[blob.len() - 133..];
        assert_eq!(point[..6], [0x04, 0x00, 0xc6, 0x85, 0x8e, 0x06]);
        assert!(
            keys.pair()
                .public
                .starts_with("ecdsa-sha2-nistp521 AAAAE2VjZHNhLXNoYTItbmlzdHA1MjEAAAAIbmlzdHA1MjEAAACF")
        );
        let der = body(keys.pair().private);
        assert_eq!(der.len(), 223);
        assert_eq!(der[..9], [0x30, 0x81, 0xdc, 0x02, 0x01, 0x01, 0x04, 0x42, 0x00]);
        assert!(der.ends_with(point), "with its public key");
    }

    #[test]
    fn any_chance_makes_a_pair_and_another_one_another() {
        let all = [[0; ENTROPY_BYTES], [0xff; ENTROPY_BYTES], [7; ENTROPY_BYTES]].map(SshKeys::of);
        assert!(all[0] != all[1] && all[1] != all[2]);
        for keys in &all {
            assert_eq!(body(keys.pair().private).len(), 223);
            assert!(keys.pair().private.lines().all(|line| line.len() <= LINE));
        }
        assert!(SshKeys::of([7; ENTROPY_BYTES]) == all[2], "the same chance, the same pair");
    }
}
