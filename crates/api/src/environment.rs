//! Clock and entropy as interfaces: production reads the host's, the simulator injects its own.

use crate::time::Time;

/// The source of the wall-clock time.
pub trait Clock: Send + Sync {
    /// Returns the current wall-clock time.
    fn now(&self) -> Time;
}

/// A source of random bytes.
pub trait Entropy: Send + Sync {
    /// Fills `bytes` with random bytes.
    fn fill(&self, bytes: &mut [u8]);

    /// A random version 4 UUID, as in `metadata.uid`.
    fn uid(&self) -> String {
        let mut b = [0_u8; 16];
        self.fill(&mut b);
        b[6] = (b[6] & 0x0f) | 0x40;
        b[8] = (b[8] & 0x3f) | 0x80;
        let hex: String = b.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }

    /// The five characters that complete a `metadata.generateName`.
    fn name_suffix(&self) -> String {
        let mut b = [0_u8; 5];
        self.fill(&mut b);
        b.iter().map(|byte| char::from(SUFFIX_LETTERS[usize::from(*byte) % SUFFIX_LETTERS.len()])).collect()
    }
}

/// Alphabet of generated names, upstream's: no vowels (no accidental words) and no look-alikes.
pub const SUFFIX_LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
