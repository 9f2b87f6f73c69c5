//! Sets of completion indexes and their compressed text: `0,2-4`.

use std::collections::BTreeSet;

/// A set of indexes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Indexes(pub BTreeSet<u32>);

impl Indexes {
    /// Reads the text; indexes of `below` and more are left out, as is what cannot be read.
    #[must_use]
    pub fn parse(text: &str, below: u32) -> Indexes {
        let mut all = BTreeSet::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            if let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) {
                all.extend(first..=last.min(below.saturating_sub(1)));
            }
        }
        all.retain(|index| *index < below);
        Indexes(all)
    }

    /// The text: runs of three and more as a range, two neighbours side by side.
    #[must_use]
    pub fn text(&self) -> String {
        let mut parts: Vec<String> = Vec::new();
        let mut rest = self.0.iter().copied().peekable();
        while let Some(first) = rest.next() {
            let mut last = first;
            while let Some(next) = rest.next_if(|next| *next == last + 1) {
                last = next;
            }
            match last - first {
                0 => parts.push(first.to_string()),
                1 => parts.push(format!("{first},{last}")),
                _ => parts.push(format!("{first}-{last}")),
            }
        }
        parts.join(",")
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an index is among them.
    #[must_use]
    pub fn has(&self, index: u32) -> bool {
        self.0.contains(&index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        for (text, below, want) in [
            ("", 5, ""),
            ("0,2-4", 5, "0,2-4"),
            ("0,1", 5, "0,1"),
            ("0-1", 5, "0,1"),
            ("0-9", 5, "0-4"),
            ("1,3,x,7", 5, "1,3"),
            ("0-4", 0, ""),
        ] {
            assert_eq!(Indexes::parse(text, below).text(), want, "{text:?} below {below}");
        }
    }
}
