//! The CURVE certificate that authenticates Flux brokers to each other.
//!
//! The secret key is the SHA-256 digest of the UID of the TrainJob, and the public key follows from it (X25519, RFC
//! 7748): every build gives the same certificate. It separates the brokers of different TrainJobs. It is not
//! confidential: a client that can read the TrainJob can derive it.

use sha2::{Digest, Sha256};

/// The certificate in the text format of ZeroMQ.
pub(super) fn certificate(name: &str, uid: &str) -> String {
    let secret: [u8; 32] = Sha256::digest(uid).into();
    let public = public_key(&secret);
    format!(
        "# ZeroMQ CURVE certificate of a TrainJob\n\nmetadata\n    name = \"{name}\"\ncurve\n    public-key = \"{}\"\n    \
         secret-key = \"{}\"\n",
        z85(&public),
        z85(&secret)
    )
}

/// The 85 digits of Z85.
const DIGITS: &[u8; 85] =
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";

/// Encodes Z85: four bytes become five digits.
fn z85(bytes: &[u8; 32]) -> String {
    let digits = |four: &[u8]| {
        let number = four.iter().fold(0_u32, |number, byte| (number << 8) | u32::from(*byte));
        [52_200_625, 614_125, 7225, 85, 1].map(|place| char::from(DIGITS[(number / place % 85) as usize]))
    };
    bytes.chunks_exact(4).flat_map(digits).collect()
}

/// The public key of a secret key.
fn public_key(secret: &[u8; 32]) -> [u8; 32] {
    let mut base = [0; 32];
    base[0] = 9;
    multiply(secret, &base)
}

/// The Montgomery ladder of RFC 7748: scalar multiplication of the point with this u-coordinate.
fn multiply(scalar: &[u8; 32], point: &[u8; 32]) -> [u8; 32] {
    let mut scalar = *scalar;
    // RFC 7748 clamps scalars: a multiple of 8, with bit 254 as the highest.
    scalar[0] &= 248;
    scalar[31] = (scalar[31] & 127) | 64;
    let mut point = *point;
    // The unused top bit of a coordinate is masked (RFC 7748, section 5).
    point[31] &= 127;
    let start = Field::of(&point);
    let (mut near, mut far) = ((Field::ONE, Field::ZERO), (start, Field::ONE));
    for at in (0..255).rev() {
        let is_set = scalar[at / 8] >> (at % 8) & 1 == 1;
        if is_set {
            std::mem::swap(&mut near, &mut far);
        }
        (near, far) = step(near, far, start);
        if is_set {
            std::mem::swap(&mut near, &mut far);
        }
    }
    near.0.times(near.1.inverse()).bytes()
}

/// One ladder step: doubles `near`, and adds both points, which differ by the start point.
fn step(near: (Field, Field), far: (Field, Field), start: Field) -> ((Field, Field), (Field, Field)) {
    const A24: Field = Field([121_665, 0, 0, 0]);
    let (sum, difference) = (near.0.plus(near.1), near.0.minus(near.1));
    let (sum_squared, difference_squared) = (sum.times(sum), difference.times(difference));
    let spread = sum_squared.minus(difference_squared);
    let one = far.0.minus(far.1).times(sum);
    let other = far.0.plus(far.1).times(difference);
    let (added, parted) = (one.plus(other), one.minus(other));
    (
        (sum_squared.times(difference_squared), spread.times(sum_squared.plus(A24.times(spread)))),
        (added.times(added), start.times(parted.times(parted))),
    )
}

/// A field element modulo 2²⁵⁵ - 19: four little-endian words, not fully reduced (less than 2²⁵⁶).
#[derive(Clone, Copy)]
struct Field([u64; 4]);

/// 2²⁵⁶ modulo 2²⁵⁵ - 19.
const FOLD: u64 = 38;
const MODULUS: [u64; 4] = [u64::MAX - 18, u64::MAX, u64::MAX, u64::MAX >> 1];

impl Field {
    const ZERO: Field = Field([0; 4]);
    const ONE: Field = Field([1, 0, 0, 0]);

    fn of(bytes: &[u8; 32]) -> Field {
        let mut words = [0; 4];
        for (word, eight) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = eight.iter().rev().fold(0, |word, byte| (word << 8) | u64::from(*byte));
        }
        Field(words)
    }

    fn plus(self, other: Field) -> Field {
        let (sum, carry) = added(self.0, other.0);
        Field(sum).folded(carry)
    }

    fn minus(self, other: Field) -> Field {
        let (mut rest, mut borrowed) = subtracted(self.0, other.0);
        while borrowed {
            (rest, borrowed) = subtracted(rest, [FOLD, 0, 0, 0]);
        }
        Field(rest)
    }

    fn times(self, other: Field) -> Field {
        let mut product = [0_u64; 8];
        for (at, a) in self.0.into_iter().enumerate() {
            let mut carry = 0;
            for (by, b) in other.0.into_iter().enumerate() {
                (product[at + by], carry) = multiplied(a, b, product[at + by], carry);
            }
            product[at + 4] = carry;
        }
        let mut low = [0; 4];
        let mut carry = 0;
        for at in 0..4 {
            (low[at], carry) = multiplied(product[at + 4], FOLD, product[at], carry);
        }
        Field(low).folded(carry)
    }

    /// Folds the part above 2²⁵⁶ back in.
    fn folded(self, mut above: u64) -> Field {
        let mut words = self.0;
        while above > 0 {
            let (sum, carry) = added(words, [above * FOLD, 0, 0, 0]);
            (words, above) = (sum, carry);
        }
        Field(words)
    }

    /// The inverse, by Fermat: the power 2²⁵⁵ - 21.
    fn inverse(self) -> Field {
        // The exponent has all bits set from bit 5 on; these are the lower ones.
        const LOW_BITS: u32 = 0b01011;
        (0..255_u32).rev().fold(Field::ONE, |power, at| {
            let squared = power.times(power);
            let is_set = at >= 5 || LOW_BITS >> at & 1 == 1;
            if is_set { squared.times(self) } else { squared }
        })
    }

    fn bytes(self) -> [u8; 32] {
        let mut words = self.0;
        loop {
            let (rest, borrowed) = subtracted(words, MODULUS);
            if borrowed {
                break;
            }
            words = rest;
        }
        let mut bytes = [0; 32];
        for (eight, word) in bytes.chunks_exact_mut(8).zip(words) {
            eight.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}

fn added(a: [u64; 4], b: [u64; 4]) -> ([u64; 4], u64) {
    let (mut sum, mut carry) = ([0; 4], 0);
    for at in 0..4 {
        (sum[at], carry) = multiplied(a[at], 1, b[at], carry);
    }
    (sum, carry)
}

fn subtracted(a: [u64; 4], b: [u64; 4]) -> ([u64; 4], bool) {
    let (mut rest, mut borrowed) = ([0; 4], false);
    for at in 0..4 {
        let (once, first) = a[at].overflowing_sub(b[at]);
        let (twice, second) = once.overflowing_sub(u64::from(borrowed));
        (rest[at], borrowed) = (twice, first || second);
    }
    (rest, borrowed)
}

/// `a * b + c + d` as a low and a high word; it never overflows 128 bits.
#[expect(clippy::cast_possible_truncation, reason = "each word for itself is wanted")]
fn multiplied(a: u64, b: u64, c: u64, d: u64) -> (u64, u64) {
    let all = u128::from(a) * u128::from(b) + u128::from(c) + u128::from(d);
    (all as u64, (all >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> [u8; 32] {
        let byte = |at: usize| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("hex");
        std::array::from_fn(byte)
    }

    #[test]
    fn the_vectors_of_the_rfc() {
        for (scalar, point, want) in [
            (
                "a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4",
                "e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c",
                "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552",
            ),
            (
                "4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d",
                "e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493",
                "95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957",
            ),
        ] {
            assert_eq!(multiply(&bytes(scalar), &bytes(point)), bytes(want));
        }
        let nine = bytes("0900000000000000000000000000000000000000000000000000000000000000");
        let (mut scalar, mut point) = (nine, nine);
        for times in 1..=1000 {
            (scalar, point) = (multiply(&scalar, &point), scalar);
            if times == 1 {
                let once = "422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079";
                assert_eq!(scalar, bytes(once));
            }
        }
        assert_eq!(scalar, bytes("684cf59ba83309552800ef566f2f4d3c1c3887c49360e3875f2eb94d99532c51"));
    }

    #[test]
    fn keys_have_forty_digits() {
        // From the Z85 specification: 86 4F D2 6F B5 59 F7 5B is "HelloWorld".
        let mut said = [0; 32];
        said[..8].copy_from_slice(&[0x86, 0x4F, 0xD2, 0x6F, 0xB5, 0x59, 0xF7, 0x5B]);
        let digits = z85(&said);
        assert!(digits.starts_with("HelloWorld") && digits.len() == 40, "{digits}");
    }
}
