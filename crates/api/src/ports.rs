//! Time and chance as ports: production reads the machine, the simulator decides.

use crate::time::Time;

/// What time it is.
pub trait Clock: Send + Sync {
    /// The present instant.
    fn now(&self) -> Time;
}

/// A source of chance.
pub trait Entropy: Send + Sync {
    /// Fills `bytes` with chance.
    fn fill(&self, bytes: &mut [u8]);

    /// A random v4 UUID in text form.
    fn uid(&self) -> String {
        let mut b = [0_u8; 16];
        self.fill(&mut b);
        b[6] = (b[6] & 0x0f) | 0x40;
        b[8] = (b[8] & 0x3f) | 0x80;
        let hex: String = b.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }

    /// Five characters for a generated name.
    fn name_suffix(&self) -> String {
        let mut b = [0_u8; 5];
        self.fill(&mut b);
        b.iter().map(|byte| char::from(SUFFIX_LETTERS[usize::from(*byte) % SUFFIX_LETTERS.len()])).collect()
    }
}

/// The letters of generated names: no vowels and nothing easily mistaken.
pub const SUFFIX_LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
