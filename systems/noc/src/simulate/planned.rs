//! The routes of a plan: those of the least possible power, as `ebb plan noc --certificate --json` proves them.

use std::collections::BTreeMap;

use ebb_scenario::{FileError, Files};
use serde::Deserialize;

use crate::{Mesh, NocError, Routed, Routes, Share, Traffic};

/// The part of a plan that is read.
#[derive(Deserialize)]
struct Plan {
    bound: Option<Bound>,
}

#[derive(Deserialize)]
struct Bound {
    certificate: Option<Certificate>,
}

#[derive(Deserialize)]
struct Certificate {
    links: Vec<(usize, usize)>,
    routes: Vec<Route>,
}

#[derive(Deserialize)]
struct Route {
    plane: usize,
    source: usize,
    target: usize,
    rate: f64,
    links: Vec<usize>,
}

/// A flow's part: what it carries, the links, the plane.
type Way = (f64, Vec<usize>, usize);

/// The routes of the plan in `file` for the flows of `traffic`, and the plane of each path, one flow after the other.
/// What a flow's parts carry relative to each other is the plan's, how much it carries is the traffic's.
pub(super) fn routes(
    file: &str,
    files: &dyn Files,
    mesh: &Mesh,
    traffic: &Traffic,
    planes: usize,
) -> Result<(Routes, Vec<usize>), NocError> {
    let wrong = |message: String| -> NocError {
        let name = file.to_owned();
        FileError {
            name,
            message: format!("{message}; use the output of `ebb plan noc --certificate --json`"),
        }
        .into()
    };
    let plan: Plan = serde_json::from_slice(&files.read(file)?)
        .map_err(|error| wrong(format!("is not a plan: {error}")))?;
    let certificate = plan.bound.and_then(|bound| bound.certificate);
    let certificate = certificate.ok_or_else(|| wrong("has no routes".to_owned()))?;
    let mut ways: BTreeMap<(usize, usize), Vec<Way>> = BTreeMap::new();
    for route in certificate.routes {
        if route.plane >= planes {
            return Err(wrong(format!("uses plane {}, and there are {planes}", route.plane)));
        }
        let mut at = route.source;
        let mut path = Vec::with_capacity(route.links.len());
        for link in route.links {
            let &(from, to) = certificate
                .links
                .get(link)
                .ok_or_else(|| wrong(format!("names link {link}, which it does not list")))?;
            let known = from == at && from < mesh.nodes();
            let found = known.then(|| mesh.leaving(from).find(|&at| mesh.links()[at].to == to));
            let missing = || wrong(format!("goes from tile {from} to tile {to}, where no link is"));
            path.push(found.flatten().ok_or_else(missing)?);
            at = to;
        }
        if at != route.target || !(route.rate.is_finite() && route.rate >= 0.0) {
            let (source, target) = (route.source, route.target);
            return Err(wrong(format!("has a route from {source} to {target} that is none")));
        }
        let all = ways.entry((route.source, route.target)).or_default();
        all.push((route.rate, path, route.plane));
    }
    let mut on_planes = Vec::new();
    let mut flows = Vec::new();
    for flow in traffic.flows() {
        let all = ways.remove(&(flow.source, flow.destination)).unwrap_or_default();
        let total: f64 = all.iter().map(|(rate, ..)| rate).sum();
        if total <= 0.0 {
            let (source, target) = (flow.source, flow.destination);
            return Err(wrong(format!("has no route from {source} to {target}")));
        }
        on_planes.extend(all.iter().map(|(.., plane)| plane));
        let paths = all.into_iter().map(|(rate, path, _)| Share { share: rate / total, path });
        flows.push(Routed { flow, paths: paths.collect() });
    }
    Ok((Routes { flows }, on_planes))
}

#[cfg(test)]
mod tests {
    use ebb_scenario::MemoryFiles;

    use super::*;
    use crate::Pattern;

    /// Two tiles side by side, and what a plan may get wrong about them.
    #[test]
    fn what_is_no_plan_of_these_flows_is_refused_by_name() {
        let mesh = Mesh::new(1, 2).unwrap();
        let traffic = Pattern::Uniform.traffic(&mesh, &mut ebb_des::Seed(1).stream("x"));
        let plan = |routes: &str| {
            let links = "[[0, 1], [1, 0]]";
            format!(
                "{{\"bound\": {{\"certificate\": {{\"links\": {links}, \"routes\": [{routes}]}}}}}}"
            )
        };
        let route = |plane: usize, source: usize, target: usize, link: usize| {
            format!(
                "{{\"plane\": {plane}, \"source\": {source}, \"target\": {target}, \"rate\": 0.5, \"links\": [{link}]}}"
            )
        };
        let read = |text: String| {
            let files = MemoryFiles::new().with("p.json", text);
            routes("p.json", &files, &mesh, &traffic, 1).map_err(|error| error.to_string())
        };
        let (there, back) = (route(0, 0, 1, 0), route(0, 1, 0, 1));
        let (found, planes) = read(plan(&format!("{there}, {back}"))).unwrap();
        assert_eq!((found.flows.len(), planes), (2, vec![0, 0]));
        for (text, says) in [
            ("no plan".to_owned(), "is not a plan"),
            ("{\"bound\": null}".to_owned(), "has no routes"),
            (plan(&there), "has no route from 1 to 0"),
            (plan(&format!("{there}, {}", route(1, 1, 0, 1))), "uses plane 1, and there are 1"),
            (plan(&format!("{there}, {}", route(0, 1, 0, 2))), "names link 2"),
            (plan(&format!("{there}, {}", route(0, 1, 0, 0))), "goes from tile 0 to tile 1"),
            (plan(&format!("{there}, {}", route(0, 1, 1, 1))), "from 1 to 1 that is none"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(says) && error.contains("p.json"), "{error}");
        }
    }
}
