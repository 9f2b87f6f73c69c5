//! Resource transformations and excluded resources.

use muster_api::queue::Amounts;
use muster_tree::Text;

/// `strategy` of a transformation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TransformationStrategy {
    #[default]
    Retain,
    Replace,
}

/// A resource transformation (`resources.transformations`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceTransformation {
    pub input: Text,
    pub strategy: TransformationStrategy,
    /// `multiplyBy`: multiplied by the amount of this resource, if a pod requests it.
    pub multiply_by: Option<Text>,
    /// Thousandths of each output per unit of input.
    pub outputs: Vec<(Text, i64)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResourceAccounting {
    /// Field `excludeResourcePrefixes` of Kueue's configuration.
    pub exclude_prefixes: Vec<Text>,
    pub transformations: Vec<ResourceTransformation>,
}

impl ResourceAccounting {
    /// Applies exclusions and transformations.
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
            if how.strategy == TransformationStrategy::Retain {
                add(&mut counted, name, *amount);
            }
            for (output, factor) in &how.outputs {
                add(&mut counted, output, how.amount_of(output, *factor, *amount, &asked));
            }
        }
        counted
    }
}

impl ResourceTransformation {
    /// The amount of an output: both factors are in thousandths, rounded up at the end.
    fn amount_of(&self, output: &str, factor: i64, amount: i64, asked: &Amounts) -> i64 {
        let in_thousandths = thousandths(&self.input, amount);
        let times = self.multiply_by.as_ref().and_then(|by| Some(thousandths(by, *asked.get(by)?)));
        let product = in_thousandths.saturating_mul(i128::from(factor)) / 1000;
        let product = times.map_or(product, |times| product.saturating_mul(times) / 1000);
        // cpu is counted in thousandths already; everything else is rounded up to whole units.
        let amount = if output == "cpu" { product } else { product.saturating_add(999) / 1000 };
        i64::try_from(amount.clamp(0, i64::MAX.into())).unwrap_or(i64::MAX)
    }
}

/// An amount in thousandths of a unit.
fn thousandths(resource: &str, amount: i64) -> i128 {
    if resource == "cpu" { i128::from(amount) } else { i128::from(amount) * 1000 }
}

fn add(to: &mut Amounts, name: &Text, amount: i64) {
    let old = to.entry(name.clone()).or_default();
    *old = old.saturating_add(amount);
}
