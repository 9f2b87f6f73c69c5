//! CEL device selectors: compiled once, evaluated once per device.

use std::collections::{BTreeMap, HashMap};

use muster_schema::rules::{Datum, Expression};
use muster_tree::Text;

use crate::device_table::{Numbers, Verdict};
use crate::facts::Device;

const DEVICE: &str = "device";
/// Compiled expressions above which the cache is cleared.
const EXPRESSIONS_MAX: usize = 4_096;
/// Upstream's hint after a "no such key" error.
const HINT: &str = "consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional fields";

#[derive(Debug, Default)]
pub(crate) struct Expressions {
    index: HashMap<Text, u32>,
    compiled: Vec<Result<Expression, String>>,
}

impl Expressions {
    pub(crate) fn selects(
        &mut self,
        source: &Text,
        device: &Device,
        numbers: &mut Numbers,
    ) -> Result<bool, String> {
        let at = self.number(source, numbers);
        if numbers.verdict(device.number, at).is_none() {
            let verdict = match self.compiled[at as usize].as_ref() {
                Err(why) => Verdict::Error(format!("CEL compile error: {why}")),
                Ok(expression) => ask(expression, device),
            };
            numbers.remember(device.number, at, verdict);
        }
        match numbers.verdict(device.number, at).expect("just remembered") {
            Verdict::Yes => Ok(true),
            Verdict::No => Ok(false),
            Verdict::Error(why) => Err(why.clone()),
        }
    }

    fn number(&mut self, source: &Text, numbers: &mut Numbers) -> u32 {
        if let Some(at) = self.index.get(source) {
            return *at;
        }
        if self.compiled.len() >= EXPRESSIONS_MAX {
            self.index.clear();
            self.compiled.clear();
            numbers.forget_all();
        }
        let at = u32::try_from(self.compiled.len()).expect("few expressions");
        self.compiled.push(Expression::compile(source));
        self.index.insert(source.clone(), at);
        at
    }
}

fn ask(expression: &Expression, device: &Device) -> Verdict {
    match expression.holds(DEVICE, &datum(expression, device)) {
        Ok(true) => Verdict::Yes,
        Ok(false) => Verdict::No,
        Err(why) if why.contains("no such key:") => {
            Verdict::Error(format!("CEL runtime error: {why}. {HINT}"))
        }
        Err(why) => Verdict::Error(format!("CEL runtime error: {why}")),
    }
}

/// The value of the CEL variable. A domain that the expression indexes and the device lacks is an empty map, as upstream.
fn datum(expression: &Expression, device: &Device) -> Datum {
    type Domains = BTreeMap<Text, Vec<(Text, Datum)>>;
    let asked = || -> Domains { expression.indexed().iter().map(|it| (it.clone(), Vec::new())).collect() };
    let (mut attributes, mut capacity) = (asked(), asked());
    for (domain, name, value) in &device.attributes {
        attributes.entry(domain.clone()).or_default().push((name.clone(), value.clone()));
    }
    for (domain, name, amount) in &device.capacity {
        let amount = Datum::Quantity(amount.clone());
        capacity.entry(domain.clone()).or_default().push((name.clone(), amount));
    }
    let map = |all: Domains| Datum::Map(all.into_iter().map(|(k, v)| (k, Datum::Map(v))).collect());
    Datum::Map(vec![
        ("driver".into(), Datum::Text(device.id.driver.clone())),
        ("allowMultipleAllocations".into(), Datum::Bool(false)),
        ("attributes".into(), map(attributes)),
        ("capacity".into(), map(capacity)),
    ])
}
