//! The Vulkan devices of the machine, and which tier decodes on them.

use serde_json::{Value, json};

use crate::table::Table;

/// A device.
pub(super) struct Device {
    name: String,
    kind: &'static str,
    /// Of Vulkan.
    version: String,
    extensions: Vec<&'static str>,
    /// Which tier decodes, and why; or why requests cannot land on it.
    tier: Result<(String, String), String>,
}

/// The devices, or why none can be used.
#[cfg(feature = "gpu")]
pub(super) fn devices() -> Result<Vec<Device>, String> {
    let devices = millstream_vulkan::devices().map_err(|error| String::from(error.cause()))?;
    if devices.is_empty() {
        return Err(String::from("no Vulkan device"));
    }
    let device = |device: millstream_vulkan::GpuDevice| {
        let (major, minor, patch) = device.version;
        Device {
            name: device.name,
            kind: device.kind,
            version: format!("{major}.{minor}.{patch}"),
            extensions: device.extensions,
            tier: match device.report {
                Ok(report) => Ok((format!("{:?}", report.tier).to_lowercase(), report.reason)),
                Err(error) => Err(String::from(error.cause())),
            },
        }
    };
    Ok(devices.into_iter().map(device).collect())
}

/// The devices, or why none can be used.
#[cfg(not(feature = "gpu"))]
pub(super) fn devices() -> Result<Vec<Device>, String> {
    Err(String::from(
        "this build has no Vulkan (cargo feature `gpu`)",
    ))
}

pub(super) fn rows(table: &mut Table, devices: &Result<Vec<Device>, String>) {
    let devices = match devices {
        Ok(devices) => devices,
        Err(why) => {
            table.row("GPU", "none", &**why);
            return;
        }
    };
    for device in devices {
        let name = format!("{}, Vulkan {}", device.name, device.version);
        table.row("GPU", device.kind, name);
        table.row("GPU extensions", "", device.extensions.join(" "));
        match &device.tier {
            Ok((tier, reason)) => table.row("GPU tier", &**tier, &**reason),
            Err(why) => table.row("GPU tier", "none", &**why),
        };
    }
}

pub(super) fn document(devices: &Result<Vec<Device>, String>) -> Value {
    let device = |device: &Device| {
        let (tier, reason) = match &device.tier {
            Ok((tier, reason)) => (Some(tier), reason),
            Err(why) => (None, why),
        };
        json!({
            "name": device.name,
            "kind": device.kind,
            "version": device.version,
            "extensions": device.extensions,
            "tier": tier,
            "reason": reason,
        })
    };
    match devices {
        Ok(devices) => json!({ "devices": devices.iter().map(device).collect::<Vec<_>>() }),
        Err(why) => json!({ "refused": why }),
    }
}
