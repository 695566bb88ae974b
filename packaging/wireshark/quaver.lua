-- SPDX-License-Identifier: MIT OR Apache-2.0
--
-- Shows the stamps that `quaver capture` keeps of each packet: fields quaver.LAYER, and .bound, .clock, .epoch, .stage of each,
-- quaver.raw.cycles and quaver.shown. docs/formats.md (Captures) describes the option that holds them.
--
-- Wireshark gives scripts no options of packets. So this reads them from the file itself: the one that Wireshark has open
-- (Linux), or the one named in the preference quaver.file. Compressed files and pipes cannot be read a second time.

local layers = {
    [1] = "nic", [2] = "xdp", [3] = "kernel", [7] = "raw", [4] = "tc", [5] = "socket", [6] = "application",
}
local order = { 1, 2, 3, 7, 4, 5, 6 }
local clocks = { [1] = "realtime", [2] = "monotonic", [3] = "tai", [4] = "phc", [5] = "cycles" }
local PHC, COUNTER = 4, 6
local UNKNOWN = 4294967295

local SECTION, PACKET = 0x0a0d0d0a, 6
-- Blocks that Wireshark counts as frames: packets in three forms, custom ones, events of systemd and sysdig.
local FRAMES = { [2] = true, [3] = true, [6] = true, [9] = true, [0xbad] = true, [0x40000bad] = true,
    [0x204] = true, [0x208] = true, [0x216] = true, [0x217] = true, [0x221] = true }
local CUSTOM, ENTERPRISE, MAGIC, SHORT_MAGIC = 2989, 32473, "QVTS", "QVTA"
-- The kernel stamp of the shorter form.
local epoch_time = Field.new("frame.time_epoch")
-- A longer block is no packet's.
local MOST_BYTES = 1048576

local quaver = Proto("quaver", "Quaver stamps")
quaver.prefs.file = Pref.string("Capture file", "", "Where the stamps are, if it is not the file that is open")

local shown_field = ProtoField.string("quaver.shown", "Layer of the packet's time")
local cycles_field = ProtoField.uint64("quaver.raw.cycles", "Raw cycles")
local fields = {}
quaver.fields = { shown_field, cycles_field }
for _, number in ipairs(order) do
    local name = layers[number]
    local of = {
        time = ProtoField.absolute_time("quaver." .. name, name, base.UTC),
        bound = ProtoField.uint32("quaver." .. name .. ".bound", "Bound of the error (ns)"),
        clock = ProtoField.string("quaver." .. name .. ".clock", "Clock"),
        epoch = ProtoField.uint32("quaver." .. name .. ".epoch", "Epoch of the clock"),
        stage = ProtoField.int64("quaver." .. name .. ".stage", "Time since the layer before (ns)"),
    }
    fields[number] = of
    for _, field in pairs(of) do
        table.insert(quaver.fields, field)
    end
end

-- What is known of the file: where the next block begins, frames so far, and where the option of each begins.
local file

local function u16(bytes, at, big)
    local a, b = bytes:byte(at, at + 1)
    return big and a * 256 + b or b * 256 + a
end

local function u32(bytes, at, big)
    local a, b, c, d = bytes:byte(at, at + 3)
    if big then
        a, b, c, d = d, c, b, a
    end
    return ((d * 256 + c) * 256 + b) * 256 + a
end

-- Files that this process reads: regular ones, of which it has read something. A pipe would lose what is read here.
local function open_files()
    local found, mounted = {}, {}
    local mounts = io.open("/proc/self/mountinfo")
    if not mounts then
        return found
    end
    for line in mounts:lines() do
        mounted[line:match("^%d+")] = true
    end
    mounts:close()
    for descriptor = 0, 255 do
        local info = io.open("/proc/self/fdinfo/" .. descriptor)
        if info then
            local text = info:read("*a")
            info:close()
            local read = tonumber(text:match("pos:%s*(%d+)") or 0)
            local flags = text:match("flags:%s*%d*(%d)")
            if read > 0 and flags ~= "1" and mounted[text:match("mnt_id:%s*(%d+)")] then
                table.insert(found, "/proc/self/fd/" .. descriptor)
            end
        end
    end
    return found
end

local function open()
    local names = quaver.prefs.file ~= "" and { quaver.prefs.file } or open_files()
    for _, name in ipairs(names) do
        local handle = io.open(name, "rb")
        local first = handle and handle:read(4)
        if first and #first == 4 and u32(first, 1) == SECTION then
            return { scan = handle, look = io.open(name, "rb"), at = 0, frames = 0, options = {} }
        end
        if handle then
            handle:close()
        end
    end
    return { ended = true, options = {} }
end

-- Where the option's value lies in a packet's block, behind the enterprise number.
local function find_option(body, big)
    local at = 21 + math.ceil(u32(body, 13, big) / 4) * 4
    while at + 3 <= #body - 4 do
        local code, length = u16(body, at, big), u16(body, at + 2, big)
        if code == 0 then
            return nil
        end
        if code == CUSTOM and length >= 12 and at + 3 + length <= #body and u32(body, at + 4, big) == ENTERPRISE
            and (body:sub(at + 8, at + 11) == MAGIC or body:sub(at + 8, at + 11) == SHORT_MAGIC) then
            return at + 8, length - 4
        end
        at = at + 4 + math.ceil(length / 4) * 4
    end
end

-- Reads blocks up to that frame, as far as the file goes now.
local function read_to(frame)
    file.scan:seek("set", file.at)
    while file.frames < frame and not file.ended do
        local head = file.scan:read(12)
        if not head or #head < 12 then
            return
        end
        if u32(head, 1) == SECTION then
            file.big = u32(head, 9) ~= 0x1a2b3c4d
        end
        local kind, length = u32(head, 1, file.big), u32(head, 5, file.big)
        if length < 12 or length % 4 ~= 0 then
            file.ended = true
            return
        end
        local option, bytes
        if kind == PACKET and length <= MOST_BYTES then
            local body = file.scan:read(length - 12)
            if not body or #body < length - 12 then
                return
            end
            body = head:sub(9) .. body
            option, bytes = find_option(body, file.big)
        else
            file.scan:seek("set", file.at + length)
        end
        if FRAMES[kind] then
            file.frames = file.frames + 1
            file.options[file.frames] = option and { at = file.at + 8 + option - 1, bytes = bytes }
        end
        file.at = file.at + length
    end
end

-- Layer of the packet's time, stamps by layer, and raw cycles.
local function read_long(value)
    local count = value:byte(7)
    local of, cycles = {}, nil
    for entry = 0, count - 1 do
        local at = 9 + 16 * entry
        local layer, clock = value:byte(at, at + 1)
        local time = Struct.unpack("<e", value:sub(at + 8, at + 15))
        if clock == COUNTER then
            cycles = Struct.unpack("<E", value:sub(at + 8, at + 15))
        elseif layers[layer] and clocks[clock] then
            of[layer] = { clock = clock, epoch = u16(value, at + 2), bound = u32(value, at + 4), time = time }
        end
    end
    return layers[value:byte(6)], of, cycles
end

-- The same of the shorter form: stamps of the kernel, which is the packet's time, and of the application.
local function read_short(value)
    local time = epoch_time().value
    local ns = Int64(time.secs) * Int64(1000000000) + Int64(time.nsecs)
    local bound = u16(value, 11)
    return "kernel", {
        [3] = { clock = 1, epoch = 0, bound = 1, time = ns },
        [6] = { clock = 5, epoch = u16(value, 9), bound = bound == 65535 and UNKNOWN or bound,
            time = ns + Int64(u32(value, 5)) },
    }
end

local function add(tree, shown, of, cycles)
    if shown then
        tree:add(shown_field, shown):set_generated()
        tree:append_text(", time by " .. shown)
    end
    local before
    for _, layer in ipairs(order) do
        local stamp = of[layer]
        if stamp then
            local second = Int64(1000000000)
            local seconds, ns = stamp.time / second, stamp.time % second
            local part = tree:add(fields[layer].time, NSTime(seconds:tonumber(), ns:tonumber()))
            part:set_generated()
            part:add(fields[layer].clock, clocks[stamp.clock]):set_generated()
            if stamp.bound ~= UNKNOWN then
                part:add(fields[layer].bound, stamp.bound):set_generated()
            end
            if stamp.epoch > 0 then
                part:add(fields[layer].epoch, stamp.epoch - 1):set_generated()
            end
            if layer == 7 and cycles then
                part:add(cycles_field, cycles):set_generated()
            end
            -- What an interface's own clock counts does not compare.
            if stamp.clock ~= PHC then
                if before then
                    part:add(fields[layer].stage, stamp.time - before):set_generated()
                end
                before = stamp.time
            end
        end
    end
end

function quaver.init()
    if file and file.scan then
        file.scan:close()
        file.look:close()
    end
    file = nil
end

function quaver.dissector(_, pinfo, tree)
    file = file or open()
    if not file.ended and file.frames < pinfo.number then
        read_to(pinfo.number)
    end
    local option = file.options[pinfo.number]
    if not option then
        return
    end
    file.look:seek("set", option.at)
    local value = file.look:read(option.bytes)
    if not value or #value ~= option.bytes then
        return
    end
    local short = value:sub(1, 4) == SHORT_MAGIC
    if short or value:byte(5) == 1 and 8 + 16 * value:byte(7) <= option.bytes then
        local part = tree:add(quaver)
        part:set_generated()
        add(part, (short and read_short or read_long)(value))
    end
end

register_postdissector(quaver)
