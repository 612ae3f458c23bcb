-- Health of a CheckpointConfiguration (checkpointing.gke.io/v1).
--
-- Older controllers write no status: that must count as Healthy, or the next sync wave would wait for
-- ever. No node at all is Healthy too: a pool may be scaled to zero.
local status = obj.status
if status == nil or status.desiredDriverPods == nil then
  return { status = "Healthy", message = "this controller reports no drivers" }
end

local wanted, ready = status.desiredDriverPods, status.readyDriverPods or 0
if wanted == 0 then
  return { status = "Healthy", message = "no node matches its selector now" }
end

local text = tostring(ready) .. " of " .. tostring(wanted) .. " drivers ready"
if ready < wanted then
  return { status = "Progressing", message = text }
end
return { status = "Healthy", message = text }
