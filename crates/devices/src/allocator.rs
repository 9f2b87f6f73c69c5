//! The allocator: depth-first search with backtracking until all requests of all claims are satisfied.
//!
//! # Invariants
//!
//! - The order is that of the upstream allocator, so that both allocate the same devices.
//! - A device is deallocated before another branch is tried.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_api::node::NodeFacts;
use muster_api::quantity;
use muster_schema::rules::Datum;
use muster_tree::Text;

use crate::allocation::{self, Allocation, DeviceResult};
use crate::cel::Expressions;
use crate::claim::{Claim, DeviceAlternative};
use crate::device_table::Numbers;
use crate::facts::{Device, DeviceClassFacts};
use crate::inventory::{PoolState, ResourcePool};

/// The API's limit of devices per claim (`AllocationResultsMaxSize`).
pub const RESULTS_MAX: usize = 32;
/// Steps of one allocation, at most; upstream has a timeout instead.
pub const STEPS_MAX: u32 = 200_000;

/// Why an allocation failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllocationError {
    /// Too few free devices match.
    Nothing,
    /// Too few free devices match, and invalid pools were skipped.
    Invalid,
    /// A claim, class or pool is invalid; the message.
    Broken(String),
}

/// Why a branch is abandoned.
enum Stop {
    /// The limit of devices per claim is exceeded.
    TooMany,
    Broken(String),
}

type BranchResult = Result<bool, Stop>;

/// An alternative, prepared for this node.
struct RequestData<'a> {
    class: &'a DeviceClassFacts,
    wanted: usize,
    /// The matching devices for `allocationMode: All`.
    all: Vec<usize>,
}

/// One allocation on one node.
pub(crate) struct Search<'a> {
    pools: &'a [ResourcePool],
    devices: Vec<&'a Arc<Device>>,
    claims: &'a [&'a Claim],
    classes: &'a BTreeMap<Text, DeviceClassFacts>,
    numbers: &'a mut Numbers,
    expressions: &'a mut Expressions,
    /// Number of free devices from each position on: a bound that ends hopeless branches early.
    free_from: Vec<usize>,
    /// By claim, request and alternative.
    worked: Vec<Vec<Vec<RequestData<'a>>>>,
    /// The chosen alternative by claim and request.
    chosen: Vec<Vec<usize>>,
    /// Allocated devices by claim, each with its request and alternative.
    given: Vec<Vec<(usize, usize, usize)>>,
    /// Attribute values of the allocated devices, by claim and constraint.
    values: Vec<Vec<Vec<&'a Datum>>>,
    steps: u32,
}

impl<'a> Search<'a> {
    /// Prepares the requests of the claims.
    pub(crate) fn new(
        pools: &'a [ResourcePool],
        claims: &'a [&'a Claim],
        classes: &'a BTreeMap<Text, DeviceClassFacts>,
        numbers: &'a mut Numbers,
        expressions: &'a mut Expressions,
    ) -> Result<Search<'a>, AllocationError> {
        // Devices of incomplete or invalid pools are not candidates; the pool state decides the error if nothing matches.
        let ready = pools.iter().filter(|pool| pool.state == PoolState::Ready);
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
            let worked = search.request_data(claim).map_err(AllocationError::Broken)?;
            search.worked.push(worked);
        }
        Ok(search)
    }

    fn request_data(&mut self, claim: &'a Claim) -> Result<Vec<Vec<RequestData<'a>>>, String> {
        let mut all = Vec::new();
        let mut sum: usize = 0;
        for request in &claim.requests {
            let mut asks = Vec::new();
            for ask in &request.alternatives {
                asks.push(self.alternative_data(claim, ask)?);
            }
            let least = asks.iter().map(|it| it.wanted).min().unwrap_or(0);
            if least > RESULTS_MAX - sum {
                return Err(format!(
                    "claim {}, request {}: adding {least} devices exceeds the claim limit of {RESULTS_MAX}, with {sum} already accounted for",
                    claim.display_name, request.name
                ));
            }
            sum += least;
            all.push(asks);
        }
        Ok(all)
    }

    fn alternative_data(
        &mut self,
        claim: &Claim,
        ask: &DeviceAlternative,
    ) -> Result<RequestData<'a>, String> {
        let about = || format!("claim {}, request {}", claim.display_name, ask.short);
        let Some(class) = self.classes.get(&ask.class) else {
            return Err(format!("{}: could not retrieve device class {}: not found", about(), ask.class));
        };
        if let Some(count) = ask.count {
            let wanted = usize::try_from(count).unwrap_or(0);
            return Ok(RequestData { class, wanted, all: Vec::new() });
        }
        for pool in self.pools {
            let state = match pool.state {
                PoolState::Ready => continue,
                PoolState::Incomplete => "being updated",
                PoolState::Invalid => "invalid",
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
        Ok(RequestData { class, wanted: all.len(), all })
    }

    pub(crate) fn run(mut self, node: &NodeFacts) -> Result<Vec<Allocation>, AllocationError> {
        match self.request(0, 0) {
            Ok(true) => Ok(self.result(node)),
            Err(Stop::Broken(why)) if why.is_empty() => Err(AllocationError::Broken(format!(
                "node {}: timed out trying to allocate devices",
                node.name
            ))),
            Err(Stop::Broken(why)) => Err(AllocationError::Broken(why)),
            _ if self.pools.iter().any(|pool| pool.state == PoolState::Invalid) => {
                Err(AllocationError::Invalid)
            }
            _ => Err(AllocationError::Nothing),
        }
    }

    fn result(&self, node: &NodeFacts) -> Vec<Allocation> {
        let one = |(c, claim): (usize, &&Claim)| {
            let ask = |r: usize, a: usize| &claim.requests[r].alternatives[a];
            let given = self.given[c]
                .iter()
                .map(|(r, a, at)| DeviceResult { ask: ask(*r, *a), device: self.devices[*at] });
            let given: Vec<DeviceResult<'_>> = given.collect();
            let chosen = self.chosen[c].iter().enumerate();
            let chosen: Vec<(&DeviceAlternative, &DeviceClassFacts)> =
                chosen.map(|(r, a)| (ask(r, *a), self.worked[c][r][*a].class)).collect();
            allocation::allocation(claim, &given, &chosen, &node.name)
        };
        self.claims.iter().enumerate().map(one).collect()
    }

    fn step(&mut self) -> Result<(), Stop> {
        self.steps += 1;
        if self.steps > STEPS_MAX { Err(Stop::Broken(String::new())) } else { Ok(()) }
    }

    /// Allocates this request and all that follow.
    fn request(&mut self, c: usize, r: usize) -> BranchResult {
        self.step()?;
        let Some(claim) = self.claims.get(c) else { return Ok(true) };
        if r >= claim.requests.len() {
            return match self.request(c + 1, 0) {
                // With other alternatives in the claims before, this claim may fit into the limit.
                Err(Stop::TooMany) => Ok(false),
                other => other,
            };
        }
        let mut always_too_many = true;
        for a in 0..claim.requests[r].alternatives.len() {
            self.chosen[c][r] = a;
            match self.devices(c, r, a, 0, 0) {
                Err(Stop::TooMany) => {}
                Ok(false) => always_too_many = false,
                other => return other,
            }
        }
        if always_too_many { Err(Stop::TooMany) } else { Ok(false) }
    }

    /// Allocates the devices of an alternative from the `nth` on, and all requests that follow.
    fn devices(&mut self, c: usize, r: usize, a: usize, nth: usize, start: usize) -> BranchResult {
        let worked = &self.worked[c][r][a];
        let all = self.claims[c].requests[r].alternatives[a].count.is_none();
        // Upstream: `All` without any matching device is no allocation.
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
            return self.allocate_next(c, r, a, nth, 0);
        }
        let (wanted, admin) = (worked.wanted - nth, self.claims[c].requests[r].alternatives[a].admin);
        for at in start..self.devices.len() {
            self.step()?;
            if !admin && self.free_from[at] < wanted {
                break;
            }
            if self.is_eligible(c, r, a, at)?
                && self.give(c, r, a, at, false)?
                && self.allocate_next(c, r, a, nth, at + 1)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Allocates the next device; on failure the previous one is deallocated.
    fn allocate_next(&mut self, c: usize, r: usize, a: usize, nth: usize, start: usize) -> BranchResult {
        let done = self.devices(c, r, a, nth + 1, start);
        if !matches!(done, Ok(true)) {
            self.deallocate(c);
        }
        done
    }

    fn is_eligible(&mut self, c: usize, r: usize, a: usize, at: usize) -> BranchResult {
        let claim = self.claims[c];
        let ask = &claim.requests[r].alternatives[a];
        if !self.is_free(c, ask, at) {
            return Ok(false);
        }
        let class = self.worked[c][r][a].class;
        self.selects(claim, class, ask, at).map_err(Stop::Broken)
    }

    /// Whether a device is free for an alternative. With `adminAccess` only the own claim counts.
    fn is_free(&self, c: usize, ask: &DeviceAlternative, at: usize) -> bool {
        let mine = |given: &[(usize, usize, usize)]| given.iter().any(|(_, _, it)| *it == at);
        if ask.admin {
            return !mine(&self.given[c]);
        }
        !self.numbers.is_held(self.devices[at].number) && !self.given.iter().any(|it| mine(it))
    }

    /// Whether a device matches class, selectors and capacities.
    fn selects(
        &mut self,
        claim: &Claim,
        class: &DeviceClassFacts,
        ask: &DeviceAlternative,
        at: usize,
    ) -> Result<bool, String> {
        let device: &Device = self.devices[at];
        if device.unsupported {
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
            if !said.map_err(|why| place(&format!("claim {}", claim.display_name), n, id, &why))? {
                return Ok(false);
            }
        }
        Ok(has_capacities(device, ask))
    }

    /// Allocates a device unless a taint or a constraint forbids it. With `must` (`allocationMode: All`) a violated
    /// constraint is an error of the claim.
    fn give(&mut self, c: usize, r: usize, a: usize, at: usize, must: bool) -> BranchResult {
        let claim = self.claims[c];
        let ask = &claim.requests[r].alternatives[a];
        let device: &'a Device = self.devices[at];
        // Taints are checked here, not in the selectors: tolerations differ per request, selector results are cached per device.
        let untolerated = device.taints.iter().any(|taint| {
            taint.effect != muster_api::node::TaintEffect::PreferNoSchedule
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
            self.remove_values(c, r, a, n);
            if must {
                return Err(Stop::Broken(format!(
                    "claim {}, request {}: cannot add device {} because a claim constraint would not be satisfied",
                    claim.display_name, ask.short, device.id
                )));
            }
            return Ok(false);
        }
        self.given[c].push((r, a, at));
        Ok(true)
    }

    fn deallocate(&mut self, c: usize) {
        let (r, a, _) = self.given[c].pop().expect("what is taken back was given");
        self.remove_values(c, r, a, usize::MAX);
    }

    /// Removes the last value of the constraints before the `end`th.
    fn remove_values(&mut self, c: usize, r: usize, a: usize, end: usize) {
        let request = &self.claims[c].requests[r];
        let all = self.claims[c].constraints.iter().zip(&mut self.values[c]).take(end);
        for (constraint, seen) in all {
            if constraint.concerns(request, &request.alternatives[a]) {
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

fn has_capacities(device: &Device, ask: &DeviceAlternative) -> bool {
    ask.capacities.iter().all(|(name, wanted)| {
        let has = device.capacity(name).and_then(|it| quantity::milli(it));
        has.zip(quantity::milli(wanted)).is_some_and(|(has, wanted)| has >= wanted)
    })
}
