//! Resources that are counted as others, or not at all.

use muster_api::queue::Amounts;
use muster_tree::Text;

/// Whether a resource that is turned into others still counts itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strategy {
    /// It does.
    #[default]
    Retain,
    /// It does not.
    Replace,
}

/// How one resource is counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transformation {
    /// Which.
    pub input: Text,
    /// Whether it still counts itself.
    pub strategy: Strategy,
    /// Counted once for each unit of this one, where a pod asks for that.
    pub multiply_by: Option<Text>,
    /// What one unit of it is: thousandths of units of other resources.
    pub outputs: Vec<(Text, i64)>,
}

/// What is configured about counting.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Accounting {
    /// Resources that begin so do not count.
    pub exclude_prefixes: Vec<Text>,
    /// Resources that count as others.
    pub transformations: Vec<Transformation>,
}

impl Accounting {
    /// What counts of these amounts, and as what.
    #[must_use]
    pub fn apply(&self, mut asked: Amounts) -> Amounts {
        asked.retain(|name, _| !self.exclude_prefixes.iter().any(|prefix| name.starts_with(prefix.as_str())));
        if !self.transformations.iter().any(|it| asked.contains_key(&it.input)) {
            return asked;
        }
        let mut counted = Amounts::new();
        for (name, amount) in &asked {
            let Some(how) = self.transformations.iter().find(|it| it.input == *name) else {
                add(&mut counted, name, *amount);
                continue;
            };
            if how.strategy == Strategy::Retain {
                add(&mut counted, name, *amount);
            }
            for (output, factor) in &how.outputs {
                add(&mut counted, output, how.amount_of(output, *factor, *amount, &asked));
            }
        }
        counted
    }
}

impl Transformation {
    /// How much of an output an amount of the input is: thousandths times thousandths, rounded up at the end.
    fn amount_of(&self, output: &str, factor: i64, amount: i64, asked: &Amounts) -> i64 {
        let in_thousandths = thousandths(&self.input, amount);
        let times = self.multiply_by.as_ref().and_then(|by| Some(thousandths(by, *asked.get(by)?)));
        let product = in_thousandths.saturating_mul(i128::from(factor)) / 1000;
        let product = times.map_or(product, |times| product.saturating_mul(times) / 1000);
        let amount = if output == "cpu" { product } else { product.saturating_add(999) / 1000 };
        i64::try_from(amount.clamp(0, i64::MAX.into())).unwrap_or(i64::MAX)
    }
}

/// An amount in thousandths, whatever its unit.
fn thousandths(resource: &str, amount: i64) -> i128 {
    if resource == "cpu" { i128::from(amount) } else { i128::from(amount) * 1000 }
}

fn add(to: &mut Amounts, name: &Text, amount: i64) {
    let old = to.entry(name.clone()).or_default();
    *old = old.saturating_add(amount);
}
