//! What webhooks were asked, under the names that controllers written in Go have for it.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;

use super::{family, histograms};
use crate::webhooks::Counts;

/// Tells it.
pub fn encode(into: &mut DescriptorEncoder<'_>, all: &Counts) -> fmt::Result {
    let codes = all.iter().flat_map(|(path, one)| {
        let codes = [("200", one.allowed + one.refused), ("500", one.failed)];
        codes.map(|(code, count)| ([("code", code), ("webhook", *path)], count))
    });
    family(
        into,
        "controller_runtime_webhook_requests",
        "Reviews asked for, by the code of the answer",
        codes,
    )?;
    let times = all.iter().map(|(path, one)| ([("webhook", *path)], &one.times));
    let help = "How long reviews took";
    histograms(into, "controller_runtime_webhook_latency_seconds", help, times)?;
    let refused = all.iter().map(|(path, one)| ([("webhook", *path)], one.refused));
    family(into, "muster_webhook_refusals", "Writes that reviews refused", refused)
}
