//! Vulkan devices, as table rows and as a JSON document.

use serde_json::{Value, json};

use crate::table::Table;

/// Adds the devices, or why none can be used.
#[cfg(feature = "gpu")]
pub(super) fn devices(table: &mut Table) -> Value {
    let devices = match millstream_vulkan::devices() {
        Ok(devices) if devices.is_empty() => return none(table, "no Vulkan device"),
        Ok(devices) => devices,
        Err(error) => return none(table, error.cause()),
    };
    let devices = devices.iter().map(|device| {
        let (major, minor, patch) = device.version;
        let version = format!("{major}.{minor}.{patch}");
        // The tier that decodes, and why; or why requests cannot target the device.
        let (tier, reason) = match &device.report {
            Ok(report) => {
                let tier = format!("{:?}", report.tier).to_lowercase();
                (Some(tier), &*report.reason)
            }
            Err(error) => (None, error.cause()),
        };
        let name = format!("{}, Vulkan {version}", device.name);
        table
            .row("GPU", device.kind, name)
            .row("GPU extensions", "", device.extensions.join(" "))
            .row("GPU tier", tier.as_deref().unwrap_or("none"), reason);
        json!({
            "name": device.name,
            "kind": device.kind,
            "version": version,
            "extensions": device.extensions,
            "tier": tier,
            "reason": reason,
        })
    });
    json!({ "devices": devices.collect::<Vec<_>>() })
}

/// Adds why no device can be used.
#[cfg(not(feature = "gpu"))]
pub(super) fn devices(table: &mut Table) -> Value {
    none(table, crate::commands::NO_GPU)
}

fn none(table: &mut Table, why: &str) -> Value {
    table.row("GPU", "none", why);
    json!({ "refused": why })
}
