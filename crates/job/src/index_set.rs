//! Sets of completion indexes and their compressed text: `0,2-4`.

use std::collections::BTreeSet;

/// A set of completion indexes, stored as intervals: a Job with a hundred thousand indexes has few of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IndexSet {
    /// First and last index of each interval; ordered, never adjacent.
    runs: Vec<(u32, u32)>,
}

impl IndexSet {
    /// Parses the text; indexes from `below` on are left out, as is what cannot be parsed.
    #[must_use]
    pub fn parse(text: &str, below: u32) -> IndexSet {
        let run = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
            (first < below && first <= last).then(|| (first, last.min(below - 1)))
        };
        IndexSet::from_runs(text.split(',').filter_map(run).collect())
    }

    #[must_use]
    pub fn of(indexes: &BTreeSet<u32>) -> IndexSet {
        IndexSet::from_runs(indexes.iter().map(|index| (*index, *index)).collect())
    }

    #[must_use]
    pub fn union(&self, other: &IndexSet) -> IndexSet {
        IndexSet::from_runs(self.runs.iter().chain(&other.runs).copied().collect())
    }

    fn from_runs(mut all: Vec<(u32, u32)>) -> IndexSet {
        all.sort_unstable();
        let mut runs: Vec<(u32, u32)> = Vec::with_capacity(all.len());
        for (first, last) in all {
            match runs.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
                _ => runs.push((first, last)),
            }
        }
        IndexSet { runs }
    }

    /// The text, as upstream writes it: an interval of three or more as a range, two neighbours as a list.
    #[must_use]
    pub fn text(&self) -> String {
        let part = |(first, last): &(u32, u32)| match last - first {
            0 => first.to_string(),
            1 => format!("{first},{last}"),
            _ => format!("{first}-{last}"),
        };
        self.runs.iter().map(part).collect::<Vec<_>>().join(",")
    }

    #[must_use]
    pub fn len(&self) -> u32 {
        self.runs.iter().map(|(first, last)| last - first + 1).sum()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    #[must_use]
    pub fn contains(&self, index: u32) -> bool {
        let at = self.runs.partition_point(|(_, last)| *last < index);
        self.runs.get(at).is_some_and(|(first, _)| *first <= index)
    }

    #[must_use]
    pub fn intersection_len(&self, other: &IndexSet) -> u32 {
        let overlap = |one: &(u32, u32)| {
            let from = other.runs.partition_point(|(_, last)| *last < one.0);
            let near = other.runs[from..].iter().take_while(|(first, _)| *first <= one.1);
            near.map(|(first, last)| one.1.min(*last) - one.0.max(*first) + 1).sum::<u32>()
        };
        self.runs.iter().map(overlap).sum()
    }

    /// The indexes below `below` that are not in the set, in order.
    pub fn missing(&self, below: u32) -> impl Iterator<Item = u32> + '_ {
        let starts = std::iter::once(0).chain(self.runs.iter().map(|(_, last)| last.saturating_add(1)));
        let ends = self.runs.iter().map(|(first, _)| *first).chain(std::iter::once(below));
        starts.zip(ends).flat_map(move |(start, end)| start..end.min(below))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        for (text, below, want, len) in [
            ("", 5, "", 0),
            ("0,2-4", 5, "0,2-4", 4),
            ("0,1", 5, "0,1", 2),
            ("0-1", 5, "0,1", 2),
            ("0-9", 5, "0-4", 5),
            ("1,3,x,7", 5, "1,3", 2),
            ("0-4", 0, "", 0),
            ("3,1,2", 5, "1-3", 3),
            ("0-2,1-3", 9, "0-3", 4),
            ("0-4294967295", u32::MAX, "0-4294967294", u32::MAX),
        ] {
            let read = IndexSet::parse(text, below);
            assert_eq!((read.text().as_str(), read.len()), (want, len), "{text:?} below {below}");
        }
    }

    /// Every pair of sets of indexes below 6: intervals must behave like plain sets.
    #[test]
    fn runs_are_sets() {
        let set = |bits: u32| (0..6).filter(|bit| bits & (1 << bit) != 0).collect::<BTreeSet<u32>>();
        for (a, b) in (0..64).flat_map(|a| (0..64).map(move |b| (a, b))) {
            let (a, b) = (set(a), set(b));
            let (x, y) = (IndexSet::of(&a), IndexSet::of(&b));
            assert_eq!(x.union(&y), IndexSet::of(&a.union(&b).copied().collect()), "{a:?} {b:?}");
            assert_eq!(x.intersection_len(&y) as usize, a.intersection(&b).count(), "{a:?} {b:?}");
            let missing: Vec<u32> = (0..5).filter(|index| !a.contains(index)).collect();
            assert_eq!(x.missing(5).collect::<Vec<_>>(), missing, "{a:?}");
            assert!((0..7).all(|index| x.contains(index) == a.contains(&index)), "{a:?}");
            assert_eq!(IndexSet::parse(&x.text(), 6), x);
        }
    }
}
