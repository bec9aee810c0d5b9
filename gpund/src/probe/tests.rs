use super::*;

#[test]
fn a_resource_is_read_with_its_files() {
    type Row<'a> = (&'a str, Option<(&'a str, Option<&'a str>, u32, &'a [&'a str])>);
    let rows: &[Row<'_>] = &[
        ("gpu:4", Some(("gpu", None, 4, &[]))),
        ("gpu:a100:4", Some(("gpu", Some("a100"), 4, &[]))),
        ("gpu::2", Some(("gpu", None, 2, &[]))),
        ("gpu:a100:2:/dev/nvidia[0-1]", Some(("gpu", Some("a100"), 2, &["/dev/nvidia0", "/dev/nvidia1"]))),
        ("x:y:2:/dev/a,/dev/b", Some(("x", Some("y"), 2, &["/dev/a", "/dev/b"]))),
        ("x:y:1:/dev/a[7]b", Some(("x", Some("y"), 1, &["/dev/a7b"]))),
        ("gpu", None),
        ("", None),
        (":4", None),
        ("gpu:a100:many", None),
        ("gpu:a b:1", None),
        ("gpu:a:3:/dev/nvidia[0-1]", None),
        ("gpu:a:1:nvidia0", None),
        ("gpu:a:2:/dev/n[1-0]", None),
        ("gpu:a:2:/dev/n[0-99999999]", None),
        ("gpu:a:2:/dev/n[0-1", None),
    ];
    for (text, right) in rows {
        let read = gres(text).ok();
        let shown = read.as_ref().map(|gres| {
            let files: Vec<&str> = gres.files.iter().map(String::as_str).collect();
            (gres.name.as_str(), gres.kind.as_deref(), gres.count, files)
        });
        assert_eq!(shown, right.map(|(name, kind, count, files)| (name, kind, count, files.to_vec())), "{text}");
    }
    assert!(gres("gpu:a:3:/dev/n0").unwrap_err().to_string().contains("counts 3 but names 1"));
}

#[test]
fn stated_cpus_have_a_shape() {
    let stated = |cpus, sockets, cores, threads| Stated { cpus, sockets, cores, threads, ..Stated::default() };
    let rows = [
        (stated(Some(8), None, None, None), Some((8, 8, 1, 1))),
        (stated(Some(8), None, Some(2), Some(2)), Some((8, 2, 2, 2))),
        (stated(None, Some(2), Some(4), Some(2)), Some((16, 2, 4, 2))),
        (stated(None, None, Some(4), None), Some((4, 1, 4, 1))),
        (stated(Some(8), Some(3), None, None), None),
        (stated(Some(8), None, Some(3), None), None),
        (stated(Some(8), None, Some(0), None), None),
    ];
    for (stated, right) in rows {
        let shape = stated_shape(&stated).ok().map(|(cpus, shape)| (cpus, shape.sockets, shape.cores, shape.threads));
        assert_eq!(shape, right, "{stated:?}");
    }
    for nothing in [stated(Some(0), None, None, None), Stated { memory_mib: Some(0), ..Stated::default() }] {
        assert_eq!(inventory(&nothing), Err(StatedError::Nothing));
    }
}

#[test]
fn the_shape_of_a_machine_is_counted() {
    // (socket, core) by CPU.
    type Row<'a> = (&'a [(i32, i32)], Option<(u32, u32, u32)>);
    let rows: &[Row<'_>] = &[
        (&[(0, 0), (0, 1)], Some((1, 2, 1))),
        (&[(0, 0), (0, 0), (1, 0), (1, 0)], Some((2, 1, 2))),
        (&[(0, 0), (0, 1), (0, 0), (0, 1)], Some((1, 2, 2))),
        (&[], None),
    ];
    for (cpus, right) in rows {
        let numbers: Vec<usize> = (0..cpus.len()).collect();
        let shape = topology(&numbers, |cpu, name| {
            let (socket, core) = cpus[cpu];
            Some(if name == "core_id" { core } else { socket })
        });
        assert_eq!(shape.map(|s| (s.sockets, s.cores, s.threads)), *right, "{cpus:?}");
    }
    assert_eq!(topology(&[0], |_, _| None), None);
    let nowhere = found_shape(Path::new("/nowhere"));
    assert_eq!(nowhere.1, Shape { sockets: nowhere.0, cores: 1, threads: 1 });
}

#[test]
fn the_kernels_files_are_read() {
    let text = "MemTotal:        8036532 kB\nMemFree:          123 kB\nMemAvailable:    2048000 kB\n";
    for (name, mib) in [("MemTotal", 7848), ("MemAvailable", 2000), ("Mem", 0), ("Swap", 0)] {
        assert_eq!(meminfo(text, name), mib, "{name}");
    }
    for (text, load) in
        [("0.07 1.2 3 1/2 3\n", Some(7)), ("12.5 0 0", Some(1250)), ("3.456 0", Some(345)), ("x", None), ("", None)]
    {
        assert_eq!(load_hundredths(text), load, "{text}");
    }
    assert_eq!(boot_time_s("cpu 1 2\nbtime 1764563000\nprocesses 5\n"), 1_764_563_000);
}

#[test]
fn this_machine_has_something() {
    let found = inventory(&Stated::default()).unwrap();
    assert!(
        !found.stated
            && found.cpus > 0
            && found.memory.0 > 0
            && found.boot_time.0 > 0
            && found.boot_time <= found.daemon_start
    );
    assert_eq!(found.sockets * found.cores_per_socket * found.threads_per_core, found.cpus);
    assert!(found.os.starts_with("Linux ") && !found.arch.is_empty() && !found.host_name.is_empty());
    let stated = inventory(&Stated { cpus: Some(64), memory_mib: Some(64_000), ..Stated::default() }).unwrap();
    assert_eq!((stated.cpus, stated.memory.0, stated.stated), (64, 64_000, true));
    assert!(!inventory(&Stated { memory_mib: Some(5), ..Stated::default() }).unwrap().stated, "its CPUs are real");
    assert!(health().memory_unused_mib > 0);
}
