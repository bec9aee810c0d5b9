//! Options on the insides of nodes: sockets, cores and threads, how tasks are laid over them, and binding.

use super::submission::{Set, Submission, list, number, text};
use super::{Bad, Given};

pub(super) fn mincpus(o: &mut Submission, g: &Given<'_>) -> Set {
    o.spec.mincpus = number(g)?;
    Ok(())
}

pub(super) fn no_kill(o: &mut Submission, g: &Given<'_>) -> Set {
    o.spec.no_kill = Some(match g.value.to_ascii_lowercase().as_str() {
        "" => true,
        "off" | "no" => false,
        _ => return Err(Bad::Value),
    });
    Ok(())
}

/// Slurm takes the number only where `AllowSpecResourcesUsage` is set, and says so where it is not.
pub(super) fn core_spec(o: &mut Submission, g: &Given<'_>) -> Set {
    number(g)?;
    let text = "Ignoring -S since it's not allowed by configuration (AllowSpecResourcesUsage = No)";
    o.ignored = vec![text.to_owned()];
    Ok(())
}

pub(super) fn spread_job(o: &mut Submission, _: &Given<'_>) -> Set {
    o.spec.spread = true;
    Ok(())
}

pub(super) fn extra(o: &mut Submission, g: &Given<'_>) -> Set {
    o.spec.extra = text(g);
    Ok(())
}

pub(super) fn prefer(o: &mut Submission, g: &Given<'_>) -> Set {
    o.spec.prefer = features(g.value, "Batch job submission failed: Invalid preferred feature specification")?;
    Ok(())
}

pub(super) fn batch(o: &mut Submission, g: &Given<'_>) -> Set {
    let bad = "Batch job submission failed: Job --batch option is invalid or not a subset of --constraint";
    o.spec.batch_features = features(g.value, bad)?;
    Ok(())
}

/// Features that are all wanted; more than that is not offered here.
fn features(value: &str, bad: &str) -> Result<Vec<String>, Bad> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '=' | ':' | '+');
    let all = value.replace('&', ",");
    let names = list(&all);
    if names.iter().any(|name| !name.chars().all(plain)) { Err(Bad::Plain(bad.to_owned())) } else { Ok(names) }
}

pub(super) fn hint(o: &mut Submission, g: &Given<'_>) -> Set {
    let layout = &mut o.spec.layout;
    match g.value {
        "nomultithread" | "compute_bound" => layout.threads_per_core = Some(1),
        "memory_bound" => (layout.cores_per_socket, layout.threads_per_core) = (Some(1), Some(1)),
        "multithread" => layout.threads_per_core = None,
        other => {
            return Err(Bad::Plain(format!("unrecognized --hint argument \"{other}\", see --hint=help")));
        }
    }
    o.tell("SLURM_HINT", g.value);
    Ok(())
}

pub(super) fn sockets_per_node(o: &mut Submission, g: &Given<'_>) -> Set {
    o.spec.layout.sockets_per_node = number(g)?;
    Ok(())
}

pub(super) fn cores_per_socket(o: &mut Submission, g: &Given<'_>) -> Set {
    o.spec.layout.cores_per_socket = number(g)?;
    Ok(())
}

pub(super) fn threads_per_core(o: &mut Submission, g: &Given<'_>) -> Set {
    o.spec.layout.threads_per_core = number(g)?;
    Ok(())
}

/// `-B sockets[:cores[:threads]]`, each a number or `*`.
pub(super) fn extra_node_info(o: &mut Submission, g: &Given<'_>) -> Set {
    let one = |text: &str| match text {
        "" | "*" => Ok(None),
        digits => digits.parse::<u32>().ok().filter(|n| *n > 0).map(Some).ok_or(Bad::Value),
    };
    let parts = g.value.split(':').map(one).collect::<Result<Vec<_>, _>>()?;
    let part = |at: usize| parts.get(at).copied().flatten();
    if parts.len() > 3 {
        return Err(Bad::Value);
    }
    let layout = &mut o.spec.layout;
    (layout.sockets_per_node, layout.cores_per_socket, layout.threads_per_core) = (part(0), part(1), part(2));
    o.node_info_given = true;
    Ok(())
}

pub(super) fn ntasks_per_socket(o: &mut Submission, g: &Given<'_>) -> Set {
    o.spec.layout.ntasks_per_socket = number(g)?;
    o.tell("SLURM_NTASKS_PER_SOCKET", g.value);
    Ok(())
}

pub(super) fn ntasks_per_core(o: &mut Submission, g: &Given<'_>) -> Set {
    o.spec.layout.ntasks_per_core = number(g)?;
    o.tell("SLURM_NTASKS_PER_CORE", g.value);
    Ok(())
}

/// `block|cyclic|plane=N[:block|cyclic|fcyclic[:…]][,Pack|NoPack]`: told to the job's steps. As with Slurm, it changes nothing in
/// what a batch job is given.
pub(super) fn distribution(o: &mut Submission, g: &Given<'_>) -> Set {
    let lower = g.value.to_ascii_lowercase();
    let mut words = lower.split(',');
    let levels: Vec<&str> = words.next().unwrap_or_default().split(':').collect();
    let packs = words.all(|word| matches!(word, "pack" | "nopack"));
    let inner = levels.iter().skip(1).all(|level| matches!(*level, "*" | "block" | "cyclic" | "fcyclic"));
    if !packs || !inner || levels.len() > 3 {
        return Err(Bad::Value);
    }
    let first = levels.first().copied().unwrap_or_default();
    match (first, first.split_once('=')) {
        ("*" | "block" | "cyclic", _) => o.tell("SLURM_DISTRIBUTION", &lower),
        ("arbitrary", _) if o.spec.node_list.is_empty() => {
            let text =
                "With Arbitrary distribution you need to specify a nodelist or hostfile with the -w option".to_owned();
            return Err(Bad::Plain(text));
        }
        ("arbitrary", _) => {
            let text = "--distribution=arbitrary is not supported yet: use block, cyclic or plane=N".to_owned();
            return Err(Bad::Plain(text));
        }
        (_, Some(("plane", size))) => {
            let size = size.parse::<u32>().ok().filter(|size| *size > 0).ok_or(Bad::Value)?;
            o.tell("SLURM_DIST_PLANESIZE", &size.to_string());
            o.tell("SLURM_DISTRIBUTION", "plane");
        }
        _ => return Err(Bad::Value),
    }
    Ok(())
}

/// `[quiet|verbose,]none|rank|local|map_mem:…|mask_mem:…[,sort|nosort|prefer]`: told to the job's steps.
pub(super) fn mem_bind(o: &mut Submission, g: &Given<'_>) -> Set {
    let (mut verbose, mut chosen) = (false, None);
    // A list behind map_mem or mask_mem goes on over commas.
    let mut list = String::new();
    for word in g.value.split(',') {
        let lower = word.to_ascii_lowercase();
        let number = !word.is_empty() && word.trim_start_matches("0x").bytes().all(|byte| byte.is_ascii_hexdigit());
        match lower.as_str() {
            "q" | "quiet" => verbose = false,
            "v" | "verbose" => verbose = true,
            "sort" | "nosort" | "p" | "prefer" => {}
            "none" | "no" | "rank" | "local" => chosen = Some(lower),
            _ if lower.starts_with("map_mem:") || lower.starts_with("mask_mem:") => {
                chosen = Some(lower);
                list.push(' ');
            }
            _ if number && !list.is_empty() => list.push_str(&format!(",{lower}")),
            _ => return Err(Bad::Text(format!("unrecognized --mem-bind argument \"{}\"", g.value))),
        }
    }
    o.tell("SLURM_MEM_BIND_VERBOSE", if verbose { "verbose" } else { "quiet" });
    if let Some(chosen) = chosen {
        let before = if verbose { "verbose," } else { "" };
        o.tell("SLURM_MEM_BIND", &format!("{before}{chosen}{}", list.trim_start()));
    }
    Ok(())
}

pub(super) fn gres_flags(o: &mut Submission, g: &Given<'_>) -> Set {
    for word in g.value.split(',') {
        match word.to_ascii_lowercase().as_str() {
            "enforce-binding" => o.spec.gres_binding = Some(true),
            "disable-binding" => o.spec.gres_binding = Some(false),
            "allow-task-sharing" | "multiple-tasks-per-sharing" | "one-task-per-sharing" => {}
            _ => return Err(Bad::Text(format!("Invalid --gres-flags specification: {}", g.value))),
        }
    }
    Ok(())
}

pub(super) fn gpu_bind(o: &mut Submission, g: &Given<'_>) -> Set {
    o.spec.tres_bind = text(g).map(|bind| format!("gres/gpu:{bind}"));
    Ok(())
}

pub(super) fn tres_bind(o: &mut Submission, g: &Given<'_>) -> Set {
    o.spec.tres_bind = text(g);
    Ok(())
}
