//! Environment variables with the devices allocated to a container (DRA).

use std::collections::BTreeMap;

use muster_api::paths::{
    allocation, container as path, container_claim, device_result as result, resource_claim as claim_path,
};
use muster_api::{meta, resource_claim};
use muster_tree::{Text, Tree};

use super::{ContainerConfigError, PodContext};

/// Prefix of the variable of each request.
const PREFIX: &str = "MUSTER_DEVICES_";
/// Read by the NVIDIA runtime.
const CUDA: &str = "CUDA_VISIBLE_DEVICES";

/// One variable per request, and `CUDA_VISIBLE_DEVICES` for NVIDIA devices.
pub(super) fn of(
    pod: &Tree,
    container: &Tree,
    context: &PodContext<'_>,
) -> Result<BTreeMap<String, String>, ContainerConfigError> {
    let mut lists: BTreeMap<String, Vec<Text>> = BTreeMap::new();
    for used in container.items_at(path::CLAIMS) {
        let only = used.str_at(container_claim::REQUEST);
        for device in allocated_devices(pod, used.str_at(container_claim::NAME), context)? {
            // The result names `request/subrequest`; the container references the request.
            let request = device.str_at(result::REQUEST).split('/').next().unwrap_or_default();
            if !only.is_empty() && only != request {
                continue;
            }
            let name = device.text_at(result::DEVICE);
            if device.str_at(result::DRIVER).contains("nvidia") {
                add(&mut lists, CUDA.to_owned(), device_index(&name));
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

/// The devices allocated to a ResourceClaim of the pod.
fn allocated_devices(
    pod: &Tree,
    within: &str,
    context: &PodContext<'_>,
) -> Result<Vec<Tree>, ContainerConfigError> {
    let Some(named) = resource_claim::pod_claims(pod).into_iter().find(|it| it.pod_claim_name == within)
    else {
        return Ok(Vec::new());
    };
    let Some(name) = named.claim else {
        return Err(ContainerConfigError::with_devices(&format!(
            "ResourceClaim {within}: pod claim has not been created yet"
        )));
    };
    let Some(found) = context.lookup.resource_claim(&meta::namespace(pod), &name) else {
        let why = format!(
            "fetch ResourceClaim {name}: resourceclaims.resource.k8s.io {:?} not found",
            name.as_str()
        );
        return Err(ContainerConfigError::with_devices(&why));
    };
    let uid = meta::uid(pod);
    if !resource_claim::consumers(&found).iter().any(|it| it.uid == uid) {
        let (pod, of) = (meta::name(pod), meta::uid(&found));
        let why = format!("pod {pod} ({uid}) is not allowed to use ResourceClaim {name} ({of})");
        return Err(ContainerConfigError::with_devices(&why));
    }
    match found.at(claim_path::ALLOCATION) {
        Some(it) => Ok(it.items_at(allocation::RESULTS).to_vec()),
        None => Err(ContainerConfigError::with_devices(&format!(
            "ResourceClaim {name}: claim is not allocated yet"
        ))),
    }
}

fn variable(request: &str) -> String {
    request.chars().map(|it| if it.is_ascii_alphanumeric() { it.to_ascii_uppercase() } else { '_' }).collect()
}

/// The index of `gpu-3`; other names as they are, since CUDA accepts identifiers too.
fn device_index(name: &Text) -> Text {
    let digits =
        name.rsplit('-').next().filter(|it| !it.is_empty() && it.bytes().all(|b| b.is_ascii_digit()));
    digits.map_or_else(|| name.clone(), Text::from)
}
