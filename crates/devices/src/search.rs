//! The search: one device after another, going back where it ends nowhere, until all claims have what they ask for.
//!
//! # Invariants
//!
//! - The order is the real allocator's, so that both give the same devices.
//! - Whatever is given is taken back before another way is tried.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_api::node::NodeFacts;
use muster_api::quantity;
use muster_schema::rules::Datum;
use muster_tree::Text;

use crate::allocation::{self, Allocation, Given};
use crate::claim::{Ask, Claim};
use crate::facts::{Class, Device};
use crate::inventory::{Pool, State};
use crate::numbers::Numbers;
use crate::select::Expressions;

/// Most devices of one claim.
pub const RESULTS_MAX: usize = 32;
/// Most devices that one search looks at, each time counted.
pub const STEPS_MAX: u32 = 200_000;

/// Why nothing was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// There are no such devices, or not enough of them.
    Nothing,
    /// Nothing, and some pools were not looked at because they contradict themselves.
    Invalid,
    /// Something is wrong with the claims, classes or slices, in words.
    Broken(String),
}

/// Why the search turns back at once.
enum Stop {
    /// More devices than a claim may have.
    TooMany,
    Broken(String),
}

type Tried = Result<bool, Stop>;

/// One thing asked for, worked out for this node.
struct Worked<'a> {
    class: &'a Class,
    wanted: usize,
    /// The devices, where all are asked for.
    all: Vec<usize>,
}

/// One search on one node.
pub(crate) struct Search<'a> {
    pools: &'a [Pool],
    devices: Vec<&'a Arc<Device>>,
    claims: &'a [&'a Claim],
    classes: &'a BTreeMap<Text, Class>,
    numbers: &'a mut Numbers,
    expressions: &'a mut Expressions,
    /// How many devices nobody holds, from each one on.
    free_from: Vec<usize>,
    /// By claim, request and alternative.
    worked: Vec<Vec<Vec<Worked<'a>>>>,
    /// Which alternative was chosen, by claim and request.
    chosen: Vec<Vec<usize>>,
    /// Devices given so far with the alternative they are for, by claim.
    given: Vec<Vec<(usize, usize, usize)>>,
    /// Values that constraints have seen, by claim and constraint.
    values: Vec<Vec<Vec<&'a Datum>>>,
    steps: u32,
}

impl<'a> Search<'a> {
    /// Works out what the claims ask for.
    pub(crate) fn new(
        pools: &'a [Pool],
        claims: &'a [&'a Claim],
        classes: &'a BTreeMap<Text, Class>,
        numbers: &'a mut Numbers,
        expressions: &'a mut Expressions,
    ) -> Result<Search<'a>, Trouble> {
        let ready = pools.iter().filter(|pool| pool.state == State::Ready);
        let devices: Vec<&Arc<Device>> = ready.flat_map(|pool| &pool.devices).collect();
        let mut search = Search {
            free_from: free_from(&devices, numbers),
            devices,
            pools,
            claims,
            classes,
            numbers,
            expressions,
            worked: Vec::new(),
            chosen: claims.iter().map(|claim| vec![0; claim.requests.len()]).collect(),
            given: claims.iter().map(|_| Vec::new()).collect(),
            values: claims.iter().map(|claim| vec![Vec::new(); claim.constraints.len()]).collect(),
            steps: 0,
        };
        for claim in claims {
            let worked = search.work_out(claim).map_err(Trouble::Broken)?;
            search.worked.push(worked);
        }
        Ok(search)
    }

    fn work_out(&mut self, claim: &'a Claim) -> Result<Vec<Vec<Worked<'a>>>, String> {
        let mut all = Vec::new();
        let mut sum: usize = 0;
        for request in &claim.requests {
            let mut asks = Vec::new();
            for ask in &request.asks {
                asks.push(self.work_out_one(claim, ask)?);
            }
            let least = asks.iter().map(|it| it.wanted).min().unwrap_or(0);
            if least > RESULTS_MAX - sum {
                return Err(format!(
                    "claim {}, request {}: adding {least} devices exceeds the claim limit of {RESULTS_MAX}, with {sum} already accounted for",
                    claim.called, request.name
                ));
            }
            sum += least;
            all.push(asks);
        }
        Ok(all)
    }

    fn work_out_one(&mut self, claim: &Claim, ask: &Ask) -> Result<Worked<'a>, String> {
        let about = || format!("claim {}, request {}", claim.called, ask.short);
        let Some(class) = self.classes.get(&ask.class) else {
            return Err(format!("{}: could not retrieve device class {}: not found", about(), ask.class));
        };
        if let Some(count) = ask.count {
            let wanted = usize::try_from(count).unwrap_or(0);
            return Ok(Worked { class, wanted, all: Vec::new() });
        }
        for pool in self.pools {
            let state = match pool.state {
                State::Ready => continue,
                State::Incomplete => "being updated",
                State::Invalid => "invalid",
            };
            let (driver, name) = &pool.id;
            return Err(format!(
                "{}: asks for all devices, but resource pool {driver}/{name} is currently {state}",
                about()
            ));
        }
        let mut all = Vec::new();
        for at in 0..self.devices.len() {
            if self.selects(claim, class, ask, at)? {
                all.push(at);
            }
        }
        Ok(Worked { class, wanted: all.len(), all })
    }

    /// Searches.
    pub(crate) fn run(mut self, node: &NodeFacts) -> Result<Vec<Allocation>, Trouble> {
        match self.request(0, 0) {
            Ok(true) => Ok(self.result(node)),
            Err(Stop::Broken(why)) if why.is_empty() => {
                Err(Trouble::Broken(format!("node {}: timed out trying to allocate devices", node.name)))
            }
            Err(Stop::Broken(why)) => Err(Trouble::Broken(why)),
            _ if self.pools.iter().any(|pool| pool.state == State::Invalid) => Err(Trouble::Invalid),
            _ => Err(Trouble::Nothing),
        }
    }

    fn result(&self, node: &NodeFacts) -> Vec<Allocation> {
        let one = |(c, claim): (usize, &&Claim)| {
            let ask = |r: usize, a: usize| &claim.requests[r].asks[a];
            let given =
                self.given[c].iter().map(|(r, a, at)| Given { ask: ask(*r, *a), device: self.devices[*at] });
            let given: Vec<Given<'_>> = given.collect();
            let chosen = self.chosen[c].iter().enumerate();
            let chosen: Vec<(&Ask, &Class)> =
                chosen.map(|(r, a)| (ask(r, *a), self.worked[c][r][*a].class)).collect();
            allocation::allocation(claim, &given, &chosen, &node.name)
        };
        self.claims.iter().enumerate().map(one).collect()
    }

    fn step(&mut self) -> Result<(), Stop> {
        self.steps += 1;
        if self.steps > STEPS_MAX { Err(Stop::Broken(String::new())) } else { Ok(()) }
    }

    /// Everything from this request on.
    fn request(&mut self, c: usize, r: usize) -> Tried {
        self.step()?;
        let Some(claim) = self.claims.get(c) else { return Ok(true) };
        if r >= claim.requests.len() {
            return match self.request(c + 1, 0) {
                // Another way through the claims before may leave it an alternative with fewer devices.
                Err(Stop::TooMany) => Ok(false),
                other => other,
            };
        }
        let mut always_too_many = true;
        for a in 0..claim.requests[r].asks.len() {
            self.chosen[c][r] = a;
            match self.devices(c, r, a, 0, 0) {
                Err(Stop::TooMany) => {}
                Ok(false) => always_too_many = false,
                other => return other,
            }
        }
        if always_too_many { Err(Stop::TooMany) } else { Ok(false) }
    }

    /// The devices of one thing asked for from the `nth` on, and everything behind it.
    fn devices(&mut self, c: usize, r: usize, a: usize, nth: usize, start: usize) -> Tried {
        let worked = &self.worked[c][r][a];
        let all = self.claims[c].requests[r].asks[a].count.is_none();
        if all && worked.all.is_empty() {
            return Ok(false);
        }
        if nth >= worked.wanted {
            return self.request(c, r + 1);
        }
        if worked.wanted - nth > RESULTS_MAX - self.given[c].len() {
            return Err(Stop::TooMany);
        }
        if all {
            let at = worked.all[nth];
            if !self.give(c, r, a, at, true)? {
                return Ok(false);
            }
            return self.go_on(c, r, a, nth, 0);
        }
        let (wanted, admin) = (worked.wanted - nth, self.claims[c].requests[r].asks[a].admin);
        for at in start..self.devices.len() {
            self.step()?;
            if !admin && self.free_from[at] < wanted {
                break;
            }
            if self.may_have(c, r, a, at)?
                && self.give(c, r, a, at, false)?
                && self.go_on(c, r, a, nth, at + 1)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The next device; takes the one before back when that leads nowhere.
    fn go_on(&mut self, c: usize, r: usize, a: usize, nth: usize, start: usize) -> Tried {
        let done = self.devices(c, r, a, nth + 1, start);
        if !matches!(done, Ok(true)) {
            self.take_back(c);
        }
        done
    }

    fn may_have(&mut self, c: usize, r: usize, a: usize, at: usize) -> Tried {
        let claim = self.claims[c];
        let ask = &claim.requests[r].asks[a];
        if !self.is_free(c, ask, at) {
            return Ok(false);
        }
        let class = self.worked[c][r][a].class;
        self.selects(claim, class, ask, at).map_err(Stop::Broken)
    }

    /// Administrators mind only their own claim.
    fn is_free(&self, c: usize, ask: &Ask, at: usize) -> bool {
        let mine = |given: &[(usize, usize, usize)]| given.iter().any(|(_, _, it)| *it == at);
        if ask.admin {
            return !mine(&self.given[c]);
        }
        !self.numbers.is_held(self.devices[at].number) && !self.given.iter().any(|it| mine(it))
    }

    /// Whether a device is what is asked for, whoever has it.
    fn selects(&mut self, claim: &Claim, class: &Class, ask: &Ask, at: usize) -> Result<bool, String> {
        let device: &Device = self.devices[at];
        if device.strange {
            return Ok(false);
        }
        let id = &device.id;
        for (n, source) in class.selectors.iter().enumerate() {
            let said = self.expressions.selects(source, device, self.numbers);
            if !said.map_err(|why| place(&format!("class {}", class.name), n, id, &why))? {
                return Ok(false);
            }
        }
        for (n, source) in ask.selectors.iter().enumerate() {
            let said = self.expressions.selects(source, device, self.numbers);
            if !said.map_err(|why| place(&format!("claim {}", claim.called), n, id, &why))? {
                return Ok(false);
            }
        }
        Ok(has_capacities(device, ask))
    }

    /// Gives a device, unless a taint or a constraint forbids it. One that must be had and breaks a constraint says
    /// that the claim contradicts itself.
    fn give(&mut self, c: usize, r: usize, a: usize, at: usize, must: bool) -> Tried {
        let claim = self.claims[c];
        let ask = &claim.requests[r].asks[a];
        let device: &'a Device = self.devices[at];
        let untolerated = device.taints.iter().any(|taint| {
            taint.effect != muster_api::node::Effect::PreferNoSchedule
                && !ask.tolerations.iter().any(|it| it.tolerates(taint))
        });
        if !self.is_free(c, ask, at) || untolerated {
            return Ok(false);
        }
        for (n, constraint) in claim.constraints.iter().enumerate() {
            if !constraint.concerns(&claim.requests[r], ask) {
                continue;
            }
            let seen = &self.values[c][n];
            let fits = device.attribute(&constraint.attribute).filter(|value| match constraint.distinct {
                true => !seen.contains(value),
                false => seen.first().is_none_or(|first| first == value),
            });
            if let Some(value) = fits {
                self.values[c][n].push(value);
                continue;
            }
            self.forget_values(c, r, a, n);
            if must {
                return Err(Stop::Broken(format!(
                    "claim {}, request {}: cannot add device {} because a claim constraint would not be satisfied",
                    claim.called, ask.short, device.id
                )));
            }
            return Ok(false);
        }
        self.given[c].push((r, a, at));
        Ok(true)
    }

    fn take_back(&mut self, c: usize) {
        let (r, a, _) = self.given[c].pop().expect("what is taken back was given");
        self.forget_values(c, r, a, usize::MAX);
    }

    /// Forgets the last value of the constraints before the `end`th.
    fn forget_values(&mut self, c: usize, r: usize, a: usize, end: usize) {
        let request = &self.claims[c].requests[r];
        let all = self.claims[c].constraints.iter().zip(&mut self.values[c]).take(end);
        for (constraint, seen) in all {
            if constraint.concerns(request, &request.asks[a]) {
                seen.pop();
            }
        }
    }
}

fn free_from(devices: &[&Arc<Device>], numbers: &Numbers) -> Vec<usize> {
    let mut free = 0;
    let mut counts: Vec<usize> = Vec::with_capacity(devices.len());
    for device in devices.iter().rev() {
        free += usize::from(!numbers.is_held(device.number));
        counts.push(free);
    }
    counts.reverse();
    counts
}

fn place(whose: &str, n: usize, id: &crate::facts::DeviceId, why: &str) -> String {
    if why.starts_with("CEL compile error") {
        return format!("{whose}: selector #{n}: {why}");
    }
    format!("{whose}: selector #{n} on device {id}: {why}")
}

fn has_capacities(device: &Device, ask: &Ask) -> bool {
    ask.capacities.iter().all(|(name, wanted)| {
        let has = device.capacity(name).and_then(|it| quantity::milli(it));
        has.zip(quantity::milli(wanted)).is_some_and(|(has, wanted)| has >= wanted)
    })
}
