# The shape of a result: what conftest prints (msg), and its parts for other readers.
package stowplan.lib

import rego.v1

finding(severity, id, text, fix, path) := {
	"id": id,
	"severity": severity,
	"text": text,
	"fix": fix,
	"path": path,
	"msg": sprintf("%s: %s; %s", [id, text, fix]),
}

error(id, text, fix, path) := finding("error", id, text, fix, path)

warning(id, text, fix, path) := finding("warning", id, text, fix, path)

note(id, text, fix, path) := finding("note", id, text, fix, path)
