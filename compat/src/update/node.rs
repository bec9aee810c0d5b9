//! Keys of nodes.

use gpun_core::command::{NodeChange, NodeSettings};

use super::{Update, UpdateError, key_is, list, pair, refuse, unsupported};

/// Keys that Slurm knows and that cannot be changed, and why.
const NOT_HERE: &[(&str, usize, &str)] = &[
    ("CertToken", 2, "nodes show themselves with their own key"),
    ("CpuBind", 3, "tasks are not bound by node"),
    ("InstanceId", 9, "the node's daemon states what it is"),
    ("InstanceType", 9, "the node's daemon states what it is"),
    ("NodeAddr", 5, "the node's daemon states its address"),
    ("NodeHostName", 5, "the node's daemon states its name"),
];

/// Reads the words of a change of nodes.
pub(super) fn parse(words: &[String]) -> Result<Update, UpdateError> {
    let (mut names, mut state, mut reason) = (String::new(), None, None);
    let mut settings = NodeSettings::default();
    for word in words {
        let (key, value) = pair(word)?;
        let is = |name, least| key_is(key, name, least);
        match key {
            _ if is("NodeName", 4) && !is("NodeAddr", 5) && !is("NodeHostName", 5) => value.clone_into(&mut names),
            _ if is("State", 1) => state = Some(value),
            _ if is("Reason", 1) && !is("ResumeAfter", 4) => reason = Some(value.to_owned()),
            _ if is("Weight", 1) => {
                let weight = value.parse();
                let wrong = |_| refuse(format!("scontrol: error: Invalid value {word} for Weight"));
                settings.weight = Some(weight.or_else(wrong)?);
            }
            _ if is("Features", 1) || is("AvailableFeatures", 2) => settings.available_features = Some(list(value)),
            _ if is("ActiveFeatures", 2) => settings.active_features = Some(list(value)),
            _ if is("Comment", 2) => settings.comment = Some(value.to_owned()),
            _ if is("Extra", 1) => settings.extra = Some(value.to_owned()),
            // What a node has is what its daemon finds.
            _ if is("Gres", 1) => {
                return refuse("slurm_update error: Invalid generic resource (gres) specification");
            }
            _ if is("ResumeAfter", 4) => {
                return refuse(match value.parse::<u32>() {
                    Ok(_) if state.is_none() => {
                        "You can only specify a resume time when DOWNING or DRAINING a node. Request denied".to_owned()
                    }
                    Ok(_) => "scontrol: error: ResumeAfter cannot be set: resume the node when it is time".to_owned(),
                    Err(_) => format!("scontrol: error: Invalid value {word} for ResumeAfter"),
                });
            }
            _ => match NOT_HERE.iter().find(|(name, least, _)| key_is(key, name, *least)) {
                Some((name, _, why)) => return refuse(format!("scontrol: error: {name} cannot be changed: {why}")),
                None => return unsupported(word),
            },
        }
    }
    let mut changes = Vec::new();
    if settings != NodeSettings::default() {
        changes.push(NodeChange::Set(Box::new(settings)));
    }
    match state {
        Some(state) => changes.push(change(state, reason)?),
        None => changes.extend(reason.map(|reason| NodeChange::Reason { reason })),
    }
    if changes.is_empty() {
        return refuse("No changes specified");
    }
    Ok(Update::Nodes { names, changes })
}

/// What a state means.
fn change(state: &str, reason: Option<String>) -> Result<NodeChange, UpdateError> {
    let because = || {
        reason
            .filter(|text| !text.is_empty())
            .map_or_else(|| refuse("You must specify a reason when DOWNING or DRAINING a node. Request denied"), Ok)
    };
    Ok(match state.to_ascii_uppercase().as_str() {
        "DRAIN" => NodeChange::Drain { reason: because()? },
        "FAIL" => NodeChange::Fail { reason: because()? },
        "DOWN" => NodeChange::Down { reason: because()? },
        "RESUME" => NodeChange::Resume,
        "UNDRAIN" => NodeChange::Undrain,
        "IDLE" => NodeChange::Idle,
        // Nodes are neither switched on and off nor kept for later, and only the controller says who is silent.
        "ALLOC" | "ALLOCATED" | "CANCEL_REBOOT" | "FUTURE" | "MIXED" | "NORESP" | "POWER_DOWN" | "POWER_DOWN_ASAP"
        | "POWER_DOWN_FORCE" | "POWER_UP" | "UNKNOWN" => {
            return refuse("slurm_update error: Invalid node state specified");
        }
        _ => {
            return refuse(format!(
                "Invalid input: state={state}\nRequest aborted\nValid states are: NoResp DRAIN FAIL FUTURE RESUME \
                 POWER_DOWN POWER_UP UNDRAIN\nNot all states are valid given a node's prior state"
            ));
        }
    })
}
