//! No CPU of a node is given to two containers that live at the same time.

use gpun_core::IndexSet;

use super::Broken;
use crate::world::World;

/// The containers of each node are on CPUs of their own.
///
/// # Errors
/// Two share one.
pub fn once_on_each_node(world: &World) -> Result<(), Broken> {
    for node in &world.nodes {
        let mut taken = IndexSet::default();
        for (key, process) in &node.processes {
            if process.cpus.iter().any(|cpu| taken.contains(cpu)) {
                let all: Vec<String> = node.processes.iter().map(|(k, p)| format!("{k} on {:?}", p.cpus)).collect();
                let how = format!("{key} shares a CPU of {}: {all:?}", node.name);
                return Err(Broken::new("no CPU is given twice", how));
            }
            taken.insert_all(&process.cpus);
        }
    }
    Ok(())
}
