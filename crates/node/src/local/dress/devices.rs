//! Variables that tell a container which devices it was given.

use std::collections::BTreeMap;

use muster_api::paths::{
    allocation, container as path, container_claim, device_result as result, resource_claim,
};
use muster_api::{claim, meta};
use muster_tree::{Text, Tree};

use super::{House, Problem};

/// How the variables begin.
const PREFIX: &str = "MUSTER_DEVICES_";
/// What the runtime of NVIDIA reads.
const CUDA: &str = "CUDA_VISIBLE_DEVICES";

/// For each request its devices, and those of NVIDIA as its runtime wants them.
pub(super) fn of(
    pod: &Tree,
    container: &Tree,
    house: &House<'_>,
) -> Result<BTreeMap<String, String>, Problem> {
    let mut lists: BTreeMap<String, Vec<Text>> = BTreeMap::new();
    for used in container.items_at(path::CLAIMS) {
        let only = used.str_at(container_claim::REQUEST);
        for device in given(pod, used.str_at(container_claim::NAME), house)? {
            // Of `request/alternative` the container names the request.
            let request = device.str_at(result::REQUEST).split('/').next().unwrap_or_default();
            if !only.is_empty() && only != request {
                continue;
            }
            let name = device.text_at(result::DEVICE);
            if device.str_at(result::DRIVER).contains("nvidia") {
                add(&mut lists, CUDA.to_owned(), number(&name));
            }
            add(&mut lists, format!("{PREFIX}{}", variable(request)), name);
        }
    }
    let joined = |(name, all): (String, Vec<Text>)| (name, all.join(","));
    Ok(lists.into_iter().map(joined).collect())
}

fn add(lists: &mut BTreeMap<String, Vec<Text>>, name: String, device: Text) {
    let list = lists.entry(name).or_default();
    if !list.contains(&device) {
        list.push(device);
    }
}

/// The devices of a claim that the pod names.
fn given(pod: &Tree, within: &str, house: &House<'_>) -> Result<Vec<Tree>, Problem> {
    let Some(named) = claim::named(pod).into_iter().find(|it| it.within == within) else {
        return Ok(Vec::new());
    };
    let Some(name) = named.claim else {
        return Err(Problem::with_devices(&format!(
            "ResourceClaim {within}: pod claim has not been created yet"
        )));
    };
    let Some(found) = house.lookup.resource_claim(&meta::namespace(pod), &name) else {
        let why = format!(
            "fetch ResourceClaim {name}: resourceclaims.resource.k8s.io {:?} not found",
            name.as_str()
        );
        return Err(Problem::with_devices(&why));
    };
    let uid = meta::uid(pod);
    if !claim::consumers(&found).iter().any(|it| it.uid == uid) {
        let (pod, of) = (meta::name(pod), meta::uid(&found));
        let why = format!("pod {pod} ({uid}) is not allowed to use ResourceClaim {name} ({of})");
        return Err(Problem::with_devices(&why));
    }
    match found.at(resource_claim::ALLOCATION) {
        Some(it) => Ok(it.items_at(allocation::RESULTS).to_vec()),
        None => Err(Problem::with_devices(&format!("ResourceClaim {name}: claim is not allocated yet"))),
    }
}

fn variable(request: &str) -> String {
    request.chars().map(|it| if it.is_ascii_alphanumeric() { it.to_ascii_uppercase() } else { '_' }).collect()
}

/// The number of `gpu-3`; another name as it is, since an identifier will do too.
fn number(name: &Text) -> Text {
    let digits =
        name.rsplit('-').next().filter(|it| !it.is_empty() && it.bytes().all(|b| b.is_ascii_digit()));
    digits.map_or_else(|| name.clone(), Text::from)
}
